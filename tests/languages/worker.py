"""worker.py DB: works on the tasks "square" and "sum.python" of a store until its standard input ends, as worker.c does.

Its squares are coroutines.
"""

import asyncio
import sys

from nocter import tasks as durable

tasks = durable.open(f"sqlite:{sys.argv[1]}")


@tasks.handler("square")
async def square(ctx):
    await asyncio.sleep(0.002)
    ctx.state = "python"
    return ctx.payload**2


@tasks.handler("sum.python")
def sum_up(ctx):
    if not ctx.resumed:
        for number in range(1, ctx.payload + 1):
            ctx.submit_child("square", number, key=str(number), key_scope=durable.KeyScope.PARENT, exist_ok=True)
        return durable.suspend_until_children()
    return sum(child.result for child in ctx.children())


with tasks, tasks.serve(2):
    print("ready", flush=True)
    sys.stdin.read()
