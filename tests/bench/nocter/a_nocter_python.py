"""nocter's executors for Python in benchmark A: PROGRAM executor|asyncio W JOBS"""

import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../peers/lang/python"))

import a_python  # noqa: E402
import nocter  # noqa: E402
import nocter.aio  # noqa: E402


async def on_a_loop(w, jobs):
    async with nocter.aio.Executor(max_workers=2) as executor:
        return await a_python.aio(executor.run, w, jobs)


if __name__ == "__main__":
    if sys.argv[1] == "executor":
        executor = nocter.Executor(max_workers=2)
        a_python.measure("nocter-python-executor", lambda w, jobs: a_python.executor(executor, w, jobs))
    else:
        a_python.measure("nocter-python-asyncio", lambda w, jobs: asyncio.run(on_a_loop(w, jobs)))
