"""For tests of programs with durable tasks: a clock that is told what time it is, and a store in memory that goes by it.

Name it to pytest, in conftest.py: pytest_plugins = ["nocter.testing"]. Then

    def test_reminder(nocter_tasks, nocter_clock):
        id = nocter_tasks.submit("remind", run_after=timedelta(days=1))
        assert nocter.testing.work_off(nocter_tasks, handlers) == 0
        nocter_clock.advance(timedelta(days=1))
        assert nocter.testing.work_off(nocter_tasks, handlers) == 1
"""

from __future__ import annotations

import asyncio
import inspect
from datetime import datetime, timezone
from typing import Any, Callable, Dict, Iterator, Optional

import pytest

from ._errors import Empty
from ._task_serving import settle
from .tasks import Clock, Run, Tasks
from .tasks import open as open_tasks


def work_off(
    tasks: Tasks, handlers: Optional[Dict[str, Callable[[Run], Any]]] = None, *, maximum: int = 10_000
) -> int:
    """Makes every round that is due, here and one after the other, until none is; says how many those were."""
    chosen = tasks.handlers if handlers is None else handlers
    for rounds in range(maximum):
        tasks.maintain()
        try:
            run = tasks.claim(list(chosen), timeout=0)[0]
        except Empty:
            return rounds
        settle(run, lambda run=run: _outcome(chosen[run.task.type], run))  # type: ignore[misc]
    raise AssertionError(f"after {maximum} rounds there is still work")


def _outcome(handler: Callable[[Run], Any], run: Run) -> Any:
    return asyncio.run(handler(run)) if inspect.iscoroutinefunction(handler) else handler(run)


@pytest.fixture
def nocter_clock() -> Iterator[Clock]:
    """A clock that stands still, at the beginning of 2024, until it is advanced."""
    with Clock(datetime(2024, 1, 1, tzinfo=timezone.utc)) as clock:
        yield clock


@pytest.fixture
def nocter_tasks(nocter_clock: Clock) -> Iterator[Tasks]:
    """A store in memory, with events, that goes by the clock."""
    with open_tasks("memory:", clock=nocter_clock, events=True) as tasks:
        yield tasks


__all__ = ["nocter_clock", "nocter_tasks", "work_off"]
