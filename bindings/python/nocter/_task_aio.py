"""What waits for a store, awaited on an asyncio loop; and a loop that runs async handlers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, Callable, Optional, TypeVar

from ._waiting import Interrupt

T = TypeVar("T")


async def in_thread(call: Callable[[Interrupt], T]) -> T:
    """Makes a call that may wait, on a thread of its own. Whoever is cancelled meanwhile interrupts it; a result that was
    there first is delivered all the same."""
    loop, interrupt = asyncio.get_running_loop(), Interrupt()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, problem: Optional[BaseException]) -> None:
        if future.done():
            return
        if problem is None:
            future.set_result(result)
        else:
            future.set_exception(problem)

    def run() -> None:
        result, problem = None, None
        try:
            result = call(interrupt)
        except BaseException as raised:
            problem = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=run, name="nocter_wait", daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        interrupt.raise_()
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        if future.exception() is None:
            return future.result()
        raise
