"""Handlers of durable tasks on Python's own threads, and on an asyncio loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Protocol, TypeVar

from ._errors import Cancelled, Closed, Error, Interrupted, LeaseLost, Timeout, WouldDeadlock
from ._native import lib
from ._serving import Workers, logger
from ._task_aio import in_thread
from ._task_run import HandBack, Run
from ._waiting import Interrupt

F = TypeVar("F", bound=Callable[[Run], Any])
_PAUSE = 0.5


class Handlers(Dict[str, Callable[[Run], Any]]):
    """Who works on tasks of which type. What a handler returns is the result, what it raises the failure."""

    def handler(self, type: str) -> Callable[[F], F]:
        """Registers a function, sync or async, for tasks of a type."""

        def register(function: F) -> F:
            self[type] = function
            return function

        return register


class Source(Protocol):
    """Where runs are claimed."""

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""

    def claim(
        self,
        types: Optional[List[str]],
        maximum: int,
        timeout: Optional[float],
        interrupt: Optional[Interrupt],
        *,
        stopping: Optional[Interrupt],
    ) -> List[Run]:
        """As Tasks.claim()."""


def settle(run: Run, make: Callable[[], Any]) -> None:
    """Makes the round and ends the run, whatever comes of it. Raises nothing."""
    with run:
        try:
            run.finish(make())
            return
        except BaseException as raised:
            problem = raised
        try:
            if run.closed:  # by an outcome that a cancel or another owner came before
                logger.debug("%s: %s", run.task.id, problem)
            elif run.interrupted and isinstance(problem, (Interrupted, Cancelled, Closed, LeaseLost)):
                run.hand_back()
            else:
                logger.info("a try of %s %s has failed", run.task.type, run.task.id, exc_info=problem)
                run.fail_with(problem)
        except (Cancelled, LeaseLost, Closed) as said:
            logger.debug("%s: %s", run.task.id, said)
        except BaseException:
            logger.exception("the outcome of %s %s could not be stored", run.task.type, run.task.id)


def claimed(source: Source, types: List[str], maximum: int, interrupt: Interrupt) -> Optional[List[Run]]:
    """Runs; none when it is to be asked again; None when nothing more will come."""
    try:
        return source.claim(types, maximum, None, interrupt, stopping=interrupt)
    except (Timeout, Interrupted):
        return []
    except Closed:
        return None
    except (Error, ValueError):
        if source.closed or interrupt.raised:
            return None
        logger.exception("tasks could not be claimed")
        time.sleep(_PAUSE)
        return []


class TaskWorkers(Workers):
    """Threads, and a loop, that work on the tasks of a store until they are stopped or the store is closed.

    At a stop nothing more is claimed. Runs say that they are interrupted; async ones are cancelled and handed back.
    """

    def __init__(self, source: Source, handlers: Dict[str, Callable[[Run], Any]], concurrency: int, name: str) -> None:
        if not handlers:
            raise ValueError("there is no handler")
        if not 1 <= concurrency <= 1024:
            raise ValueError(f"concurrency must be from 1 to 1024, not {concurrency}")
        waiting = {type: handler for type, handler in handlers.items() if inspect.iscoroutinefunction(handler)}
        blocking = {type: handler for type, handler in handlers.items() if type not in waiting}
        types = list(blocking)

        def serve_one(interrupt: Interrupt) -> bool:
            runs = claimed(source, types, 1, interrupt)
            for run in runs or ():
                begins = not interrupt.raised  # else it was claimed at the last moment
                settle(run, lambda run=run: blocking[run.task.type](run) if begins else HandBack())  # type: ignore[misc]
            return runs is not None

        self._rounds = _Rounds(source, waiting, concurrency) if waiting else None
        more = () if self._rounds is None else (self._rounds.serve,)
        super().__init__(serve_one, concurrency if blocking else 0, name, *more)

    def stop(self, timeout: Optional[float] = None) -> None:
        """Claims nothing more, and waits until what runs has ended; Timeout when that takes longer."""
        self._interrupt.raise_()
        if self._rounds is not None and self._rounds.on_this_thread():
            raise WouldDeadlock(lib.NOCTER_E_WOULD_DEADLOCK, "the loop that runs handlers cannot wait for them: astop()")
        super().stop(timeout)

    async def astop(self) -> None:
        """The same for a loop."""
        self._interrupt.raise_()
        await in_thread(lambda _: self.stop())

    async def __aenter__(self) -> TaskWorkers:
        return self

    async def __aexit__(self, kind: Any, value: Any, trace: Any) -> None:
        await self.astop()


class _Rounds:
    """Rounds of async handlers: claimed by one thread, run on the loop of whoever serves, or on one of their own."""

    def __init__(self, source: Source, handlers: Dict[str, Callable[[Run], Any]], concurrency: int) -> None:
        self._source, self._handlers, self._concurrency = source, handlers, concurrency
        self._free = threading.Semaphore(concurrency)
        self._stop: Callable[[], None] = _nothing
        self._running: Dict[asyncio.Task[None], Run] = {}
        self._posted: Dict[Run, None] = {}  # claimed, and not begun yet
        self._timer: Optional[asyncio.TimerHandle] = None
        try:
            self._loop, self._own = asyncio.get_running_loop(), False
        except RuntimeError:
            self._loop, self._own = asyncio.new_event_loop(), True

    def on_this_thread(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def serve(self, interrupt: Interrupt) -> bool:
        """What the thread does that claims, all of its life."""
        self._stop = interrupt.raise_
        if not self._own:
            try:
                self._claim_until_stopped(interrupt)
            except RuntimeError:  # the loop was closed by its owner
                for run in [*self._posted, *self._running.values()]:
                    if not run.closed:
                        settle(run, HandBack)
            return False
        thread = threading.Thread(target=self._run_loop, name="nocter_loop", daemon=True)
        thread.start()
        try:
            self._claim_until_stopped(interrupt)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
        return False

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _claim_until_stopped(self, interrupt: Interrupt) -> None:
        types = list(self._handlers)
        while not interrupt.raised:
            if not self._free.acquire(timeout=_PAUSE):
                continue
            places = 1
            while places < 100 and self._free.acquire(blocking=False):
                places += 1
            runs = claimed(self._source, types, places, interrupt)
            for _ in range(places - len(runs or ())):
                self._free.release()
            self._posted.update(dict.fromkeys(runs or ()))
            for run in runs or ():
                self._loop.call_soon_threadsafe(self._begin, run)
            if runs is None:
                break
        self._loop.call_soon_threadsafe(self._cancel_all)
        for _ in range(self._concurrency):  # until nothing runs
            while not self._free.acquire(timeout=_PAUSE):
                self._loop.call_soon_threadsafe(_nothing)  # raises once the loop is closed

    # ---- On the loop ----

    def _begin(self, run: Run) -> None:
        task = self._loop.create_task(self._make(run))
        self._running[task] = run
        self._posted.pop(run, None)
        task.add_done_callback(self._ended)
        if self._timer is None:
            self._timer = self._loop.call_later(0.05, self._look)

    def _ended(self, task: asyncio.Task[None]) -> None:
        run = self._running.pop(task)
        if run.closed:
            self._free.release()
        else:  # it was cancelled before it began
            threading.Thread(target=self._hand_back, args=(run,), name="nocter_wait", daemon=True).start()

    def _hand_back(self, run: Run) -> None:
        settle(run, HandBack)
        self._free.release()

    def _look(self) -> None:
        """Cancels, once, what should end early; asked from time to time, for an interrupt wakes no loop."""
        for task, run in list(self._running.items()):
            if not run.closed and run.interrupted:
                task.cancel()
        self._timer = self._loop.call_later(0.05, self._look) if self._running else None

    def _cancel_all(self) -> None:
        for task in self._running:
            task.cancel()

    async def _make(self, run: Run) -> None:
        try:
            outcome = await self._handlers[run.task.type](run)
            make = _given(outcome)
        except asyncio.CancelledError as problem:
            task: Any = asyncio.current_task()
            # 3.11 tells whether somebody asked for it or the handler was cancelled by what it awaited.
            asked = task.cancelling() > 0 if hasattr(task, "cancelling") else True
            if asked and not run.interrupted:
                self._stop()  # by the owner of the loop, which ends
            make = _given(HandBack()) if asked else _raised(problem)
        except BaseException as problem:
            make = _raised(problem)
        await in_thread(lambda _: settle(run, make))


def _nothing() -> None:
    pass


def _given(outcome: Any) -> Callable[[], Any]:
    return lambda: outcome


def _raised(problem: BaseException) -> Callable[[], Any]:
    def make() -> Any:
        raise problem

    return make
