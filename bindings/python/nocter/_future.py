"""The future of an executor's job: a concurrent.futures.Future that makes its condition only when somebody needs one.

The base class makes a condition for each future and takes it at each step, which costs more than the job's whole way
through nocter. Here a future that is not waited for never has a condition. Who comes first is decided by one atomic
dict operation: either the thread that ends the job (then whoever asks for the condition later finds the final state), or the
thread that asks for the condition (then the end is told under it, exactly as the base class does).
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, LOGGER, PENDING
from typing import Any, Callable, Optional, TypeVar

T = TypeVar("T")
_DONE = (FINISHED, CANCELLED, CANCELLED_AND_NOTIFIED)
_ENDED_FIRST = object()


class _LazyCondition:
    """Makes the condition of a future at the first access; from then on the instance's own attribute is found."""

    def __get__(self, future: Any, owner: Any = None) -> Any:
        if future is None:
            return self
        condition = threading.Condition()
        decided = future.__dict__.setdefault("_decided", condition)
        if decided is _ENDED_FIRST:
            while future._state not in _DONE:
                time.sleep(0)  # the other thread is between its decision and the next two statements
            decided = condition  # nobody will be told through it any more
        return future.__dict__.setdefault("_condition", decided)


class _LazyList:
    """A list that an object has from the first access on."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    def __get__(self, future: Any, owner: Any = None) -> Any:
        return self if future is None else future.__dict__.setdefault(self._name, [])


class JobFuture(Future[T]):
    """What Executor.submit() returns."""

    # All that Future.__init__ sets, as it is when nothing has happened yet.
    _state: str = PENDING
    _result: Any = None
    _exception: Optional[BaseException] = None
    _condition: Any = _LazyCondition()
    _waiters: Any = _LazyList()
    _done_callbacks: Any = _LazyList()

    # Whom to ask for the job back, as long as it has not ended; and what nocter knows it by.
    _crew: Any = None
    _ticket: Any = None

    def __init__(self) -> None:
        """Nothing: an executor does not even call it."""

    def cancel(self) -> bool:
        """Cancels the job if nobody has begun it."""
        crew = self._crew
        if self._state == PENDING and crew is not None and crew.reclaim(self):
            self.cancel_reclaimed()
        return self.cancelled()

    def cancel_reclaimed(self) -> None:
        """For a job that nocter handed back: nobody else will ever run or end it."""
        self._crew = None
        mine = self.__dict__
        if mine.setdefault("_decided", _ENDED_FIRST) is _ENDED_FIRST:
            self._state = CANCELLED_AND_NOTIFIED
            if "_done_callbacks" in mine:
                self._invoke_callbacks()
        else:
            super().cancel()
            self.set_running_or_notify_cancel()

    def cancelled(self) -> bool:
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def done(self) -> bool:
        return self._state in _DONE

    def result(self, timeout: Optional[float] = None) -> Any:
        if self._state == FINISHED and self._exception is None:
            return self._result
        return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        if self._state == FINISHED:
            return self._exception
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        self.__dict__.setdefault("_done_callbacks", []).append(fn)
        # Whoever pops it calls it: this thread when the future is done, the thread that ends it in all other cases.
        if self._state in _DONE:
            self._invoke_callbacks()

    def finish(self, result: Any, exception: Optional[BaseException] = None) -> None:
        """Ends a running job: what set_result() and set_exception() do, without a lock where nobody waits."""
        self._crew = None
        mine = self.__dict__
        decided = mine.setdefault("_decided", _ENDED_FIRST)
        if decided is _ENDED_FIRST:
            self._result, self._exception = result, exception
            self._state = FINISHED
        else:
            with decided:
                self._result, self._exception = result, exception
                self._state = FINISHED
                for waiter in self._waiters:
                    (waiter.add_result if exception is None else waiter.add_exception)(self)
                decided.notify_all()
        if "_done_callbacks" in mine:
            self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        while self._done_callbacks:
            try:
                callback = self._done_callbacks.pop(0)
            except IndexError:  # another thread was faster
                return
            try:
                callback(self)
            except Exception:
                LOGGER.exception("exception calling callback for %r", self)
