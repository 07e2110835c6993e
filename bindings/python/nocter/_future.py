"""The future of an executor's job: a concurrent.futures.Future that makes its condition only when somebody needs one.

The base class makes a condition for each future and takes it at each step, which costs more than the job's whole way
through nocter. Here a future that is not waited for never has a condition. Both that ask for the condition and that
end the job first append to one list, which is atomic, and look who was first: the end (then whoever asks for the
condition later finds the final state), or a condition (then the end is told under it, exactly as the base class
does).
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, LOGGER, PENDING
from typing import Any, Callable, List, Optional, TypeVar

T = TypeVar("T")
_DONE = (FINISHED, CANCELLED, CANCELLED_AND_NOTIFIED)
_ENDED = object()


class _LazyCondition:
    """Makes the condition of a future at the first access; from then on the instance's own attribute is found."""

    def __get__(self, future: Any, owner: Any = None) -> Any:
        if future is None:
            return self
        future._turns.append(threading.Condition())
        first = future._turns[0]
        if first is _ENDED:
            while future._state not in _DONE:
                time.sleep(0)  # the other thread is between its turn and the next two statements
            first = threading.Condition()  # nobody will be told through it any more
        return future.__dict__.setdefault("_condition", first)


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
    _done_callbacks: List[Callable[[Any], object]]

    # Whom to ask for the job back, as long as it has not ended; and what nocter knows it by.
    _crew: Any = None
    _ticket: Any = None
    # Who came first: conditions that were asked for, and the end.
    _turns: List[Any]

    def __init__(self) -> None:
        self._turns, self._done_callbacks = [], []

    def cancel(self) -> bool:
        """Cancels the job if nobody has begun it."""
        crew = self._crew
        if self._state == PENDING and crew is not None and crew.reclaim(self):
            self.cancel_reclaimed()
        return self.cancelled()

    def cancel_reclaimed(self) -> None:
        """For a job that nocter handed back: nobody else will ever run or end it."""
        self._crew = None
        turns = self._turns
        turns.append(_ENDED)
        if turns[0] is _ENDED:
            self._state = CANCELLED_AND_NOTIFIED
            if self._done_callbacks:
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
        self._done_callbacks.append(fn)
        # Whoever pops it calls it: this thread when the future is done, the thread that ends it in all other cases.
        if self._state in _DONE:
            self._invoke_callbacks()

    def finish(self, result: Any, exception: Optional[BaseException] = None) -> None:
        """Ends a running job: what set_result() and set_exception() do, without a lock where nobody waits."""
        self._crew = None
        turns = self._turns
        turns.append(_ENDED)
        first = turns[0]
        if first is _ENDED:
            self._result, self._exception = result, exception
            self._state = FINISHED
        else:
            with first:
                self._result, self._exception = result, exception
                self._state = FINISHED
                for waiter in self._waiters:
                    (waiter.add_result if exception is None else waiter.add_exception)(self)
                first.notify_all()
        if self._done_callbacks:
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
