"""The executor: a real Executor and real futures of concurrent.futures, over nocter."""

import asyncio
import concurrent.futures
import ctypes
import dataclasses
import functools
import gc
import logging
import sys
import threading
import time
import weakref
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, as_completed, wait

import pytest

import nocter
from nocter._future import JobFuture


class Thing:
    """Something whose end can be watched."""


class Gate:
    """A job that says when it runs and runs until it is let go."""

    def __init__(self):
        self.entered, self.opened = threading.Semaphore(0), threading.Event()

    def __call__(self, result=None):
        self.entered.release()
        assert self.opened.wait(30)
        return result

    def wait_entered(self):
        assert self.entered.acquire(timeout=20)


@pytest.fixture
def gate():
    new = Gate()
    yield new
    new.opened.set()


def identities(executor):
    now = executor.count()
    freed = now.taken + now.cancelled_queued + now.cancelled_completed + now.abandoned_retired
    assert now.accepted == freed + now.shutdown_queued + now.shutdown_completed + now.admitted
    assert now.epoch == now.accepted - now.admitted
    return now


def test_blk_14_executor_is_one_of_concurrent_futures():
    with nocter.Executor(2) as executor:
        assert isinstance(executor, concurrent.futures.Executor)
        future = executor.submit(pow, 2, exp=10)
        assert isinstance(future, Future) and future.result(10) == 1024
        assert future.done() and not future.running() and not future.cancelled() and future.exception() is None
        assert "finished returned int" in repr(future)


def test_blk_14_results_and_exceptions_arrive_as_they_are():
    problem = KeyError("missing")

    def fail():
        raise problem

    with nocter.Executor(1) as executor:
        future = executor.submit(fail)
        with pytest.raises(KeyError) as caught:
            future.result(10)
        assert caught.value is problem and future.exception(10) is problem
        assert [entry.name for entry in caught.traceback][-1] == "fail"
        leaving = executor.submit(sys.exit, 3)
        with pytest.raises(SystemExit):
            leaving.result(10)
        assert executor.submit(int, "7").result(10) == 7  # the thread lives on


def test_blk_14_map_keeps_the_order_also_beyond_the_bound():
    with nocter.Executor(3, maximum_jobs=4) as executor:
        assert list(executor.map(pow, range(200), [2] * 200)) == [number**2 for number in range(200)]
        with pytest.raises(ZeroDivisionError):
            list(executor.map(lambda number: 1 // number, [1, 0, 1]))
        now = identities(executor)
    assert now.accepted == 203 and now.completed_lost == 0


def test_blk_14_states_and_conditions_of_a_future(gate):
    with nocter.Executor(1) as executor:
        running = executor.submit(gate, 5)
        queued = executor.submit(gate, 6)
        gate.wait_entered()
        assert running.running() and not running.done() and not queued.running()
        with pytest.raises(concurrent.futures.TimeoutError):
            running.result(0.01)
        with pytest.raises(concurrent.futures.TimeoutError):
            queued.exception(0.01)
        gate.opened.set()
        assert (running.result(10), queued.result(10)) == (5, 6)


def test_blk_14_wait_and_as_completed(gate):
    with nocter.Executor(2) as executor:
        blocked = executor.submit(gate)
        quick = [executor.submit(int, number) for number in range(10)]
        done, not_done = wait([blocked] + quick, timeout=20, return_when=FIRST_COMPLETED)
        assert done and blocked in not_done
        assert wait(quick, timeout=20) == (set(quick), set())
        failed = executor.submit(int, "x")
        done, not_done = wait([blocked, failed], timeout=20, return_when=FIRST_EXCEPTION)
        assert done == {failed} and not_done == {blocked}
        threading.Timer(0.05, gate.opened.set).start()
        order = list(as_completed(quick + [blocked], timeout=20))
        assert order[-1] is blocked and set(order) == set(quick) | {blocked}
        assert wait([blocked], timeout=20).done == {blocked}


def test_blk_14_wait_never_returns_early_while_jobs_end():
    """Futures end all the time while waiters are put on them: each wait must see every one of its futures done."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with nocter.Executor(4) as executor:
            for _ in range(150):
                futures = [executor.submit(int, number) for number in range(8)]
                done, not_done = wait(futures, timeout=20)
                assert not not_done and all(future._state == "FINISHED" for future in done)
                assert len(list(as_completed(futures, timeout=20))) == 8
    finally:
        sys.setswitchinterval(interval)


def test_blk_14_done_callbacks_run_once_each_whoever_comes_first():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    calls = []
    try:
        with nocter.Executor(4) as executor:
            for number in range(1000):
                future = executor.submit(int, number)
                future.add_done_callback(lambda done, number=number: calls.append((number, done.result())))
                future.add_done_callback(lambda done, number=number: calls.append((number, done.result())))
    finally:
        sys.setswitchinterval(interval)
    assert sorted(calls) == sorted([(number, number) for number in range(1000)] * 2)


def test_blk_14_done_callbacks_keep_their_order_and_their_errors_are_logged(gate, caplog):
    calls = []
    with nocter.Executor(1) as executor:
        future = executor.submit(gate)
        gate.wait_entered()
        future.add_done_callback(lambda done: calls.append(1))
        future.add_done_callback(lambda done: 1 // 0)
        future.add_done_callback(lambda done: calls.append(2))
        with caplog.at_level(logging.ERROR, logger="concurrent.futures"):
            gate.opened.set()
            future.result(10)
            executor.shutdown()
    future.add_done_callback(lambda done: calls.append(3))
    assert calls == [1, 2, 3]
    assert "ZeroDivisionError" in caplog.text


def test_blk_14_the_lazy_future_has_what_the_base_class_has():
    """The future sets what Future.__init__ sets in its own way: nothing may be missing in any version of Python."""
    ours = JobFuture()
    for name in vars(Future()):
        assert hasattr(ours, name), name
    assert type(ours._condition) is type(Future()._condition) and ours._condition is ours._condition
    ours.set_running_or_notify_cancel()
    ours.set_result(3)
    assert ours.result() == 3
    with pytest.raises(concurrent.futures.InvalidStateError):
        ours.set_result(4)
    failed = JobFuture()
    failed.set_exception(KeyError(1))
    with pytest.raises(KeyError):
        failed.result()


def test_blk_09_cancel_takes_queued_jobs_back_and_leaves_running_ones_alone(gate):
    ran = []
    with nocter.Executor(1) as executor:
        running = executor.submit(gate, "result")
        queued = [executor.submit(ran.append, number) for number in range(3)]
        gate.wait_entered()
        told = []
        queued[1].add_done_callback(told.append)
        assert queued[1].cancel() and queued[1].cancel() and queued[1].cancelled() and queued[1].done()
        assert told == [queued[1]] and identities(executor).cancelled_queued == 1
        with pytest.raises(concurrent.futures.CancelledError):
            queued[1].result(10)
        assert not running.cancel() and running.running()
        assert wait([queued[1]], timeout=10).done == {queued[1]}
        gate.opened.set()
        assert running.result(10) == "result"
        assert not running.cancel()
    assert ran == [0, 2]
    now = identities(executor)
    assert (now.cancelled_queued, now.abandoned_retired, now.taken) == (1, 0, 3)


def test_blk_09_b_1_cancel_against_claim():
    """A job is cancelled or run, never both, never neither."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        ran, futures = set(), []
        with nocter.Executor(2, maximum_jobs=64) as executor:
            for number in range(2000):
                future = executor.submit(ran.add, number)
                if number % 2:
                    future.cancel()
                futures.append(future)
    finally:
        sys.setswitchinterval(interval)
    assert all(future.done() for future in futures)
    assert ran == {number for number, future in enumerate(futures) if not future.cancelled()}
    now = identities(executor)
    assert now.admitted == 0 and now.cancelled_queued == 2000 - len(ran)


def test_blk_09_b_28_cancelling_an_old_future_never_hits_another_job():
    """What a job was known by is used again by later jobs: futures are cancelled while and after that happens."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    old, stop = [], threading.Event()

    def canceller():
        while not stop.is_set():
            for future in old[-20:]:
                future.cancel()

    threads = [threading.Thread(target=canceller) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        with nocter.Executor(2, maximum_jobs=8) as executor:
            kept = []
            for number in range(1500):
                old.append(executor.submit(int, number))
                kept.append(executor.submit(int, number))
            assert [future.result(20) for future in kept] == list(range(1500))
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join(20)
    assert all(future.cancelled() or future.result(0) == number for number, future in enumerate(old))


def test_blk_11_b_10_a_job_let_in_while_the_executor_closes_is_run(gate, monkeypatch):
    """A submit has seen the executor open, and comes in after the closing thread has found nothing left to run."""
    executor = nocter.Executor(1)
    running = executor.submit(gate, 1)
    gate.wait_entered()
    late = [executor.submit(int, "5"), executor.submit(int, "x")]
    service = executor._crew.service
    monkeypatch.setattr(service, "count", lambda: dataclasses.replace(nocter.Blocking.count(service), admitted=0))
    executor.shutdown(wait=False)
    assert late[0].result(20) == 5 and isinstance(late[1].exception(20), ValueError)
    gate.opened.set()
    executor.shutdown(wait=True)
    assert running.result(0) == 1 and not any(thread.is_alive() for thread in executor._crew.threads)


def test_blk_11_shutdown_runs_what_is_queued(gate):
    executor = nocter.Executor(1)
    running, queued = executor.submit(gate, 1), executor.submit(int, 2)
    gate.wait_entered()
    executor.shutdown(wait=False)
    for call in (executor.submit, executor.map):
        with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
            list(call(int, [3]))
    with pytest.raises(nocter.Closed):
        executor.submit(int)
    assert not running.done() and not queued.done()
    gate.opened.set()
    executor.shutdown(wait=True)
    assert (running.result(0), queued.result(0)) == (1, 2)
    assert not any(thread.is_alive() for thread in executor._crew.threads)
    executor.shutdown()
    executor.shutdown(wait=True, cancel_futures=True)


def test_blk_11_shutdown_cancels_what_is_queued_when_told(gate):
    executor, told = nocter.Executor(2, maximum_jobs=64), []
    running = [executor.submit(gate, number) for number in range(2)]
    queued = [executor.submit(int, number) for number in range(40)]
    for future in queued:
        future.add_done_callback(told.append)
    for _ in running:
        gate.wait_entered()
    executor.shutdown(wait=False, cancel_futures=True)
    assert told == queued and all(future.cancelled() for future in queued)
    assert wait(queued, timeout=10).done == set(queued)
    gate.opened.set()
    executor.shutdown(wait=True)
    assert [future.result(0) for future in running] == [0, 1]  # abandoned in nocter, and still somebody's result here
    now = identities(executor)
    assert (now.shutdown_queued, now.abandoned_retired, now.admitted) == (40, 2, 0)


def test_blk_11_shutdown_of_an_idle_executor_ends_its_threads():
    for arguments in ({}, {"cancel_futures": True}):
        executor = nocter.Executor(4)
        executor.submit(int).result(10)
        executor.shutdown(**arguments)
        assert not any(thread.is_alive() for thread in executor._crew.threads)


def test_blk_11_b_10_shutdown_against_submit():
    """Each submit is refused, or its job runs: nothing is stranded between the two."""
    for _ in range(15):
        executor, ran, accepted = nocter.Executor(2), [], []

        def submitter():
            try:
                while True:
                    accepted.append(executor.submit(ran.append, 1))
            except nocter.Closed:
                pass

        threads = [threading.Thread(target=submitter) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.002)
        executor.shutdown()
        for thread in threads:
            thread.join(20)
        assert all(future.done() and not future.cancelled() for future in accepted)
        assert len(ran) == len(accepted) == identities(executor).taken


def test_blk_11_a_job_cannot_wait_for_its_own_executor():
    with nocter.Executor(1) as executor:
        with pytest.raises(nocter.WouldDeadlock):
            executor.submit(executor.shutdown).result(10)
        assert executor.submit(int).result(10) == 0
        executor.submit(executor.shutdown, wait=False).result(10)


def test_blk_03_saturation_raises_by_option(gate):
    with nocter.Executor(1, maximum_jobs=2, saturation="raise") as executor:
        futures = [executor.submit(gate, number) for number in range(2)]
        gate.wait_entered()
        with pytest.raises(nocter.Saturated):
            executor.submit(gate, 9)
        assert len(executor._crew.values) == 2
        gate.opened.set()
        assert [future.result(10) for future in futures] == [0, 1]
        assert executor.submit(int).result(10) == 0


def test_blk_03_saturation_blocks_by_default(gate, wait_for):
    with nocter.Executor(1, maximum_jobs=2) as executor:
        for _ in range(2):
            executor.submit(gate)
        late = []
        thread = threading.Thread(target=lambda: late.append(executor.submit(int, 5)))
        thread.start()
        wait_for(lambda: executor.count().saturated >= 2)
        time.sleep(0.02)
        assert not late
        gate.opened.set()
        thread.join(20)
        assert late[0].result(10) == 5


def test_blk_03_a_blocked_submit_ends_with_the_executor(gate, wait_for):
    for cancel in (False, True):
        here = Gate()
        executor, ended = nocter.Executor(1, maximum_jobs=1), []
        executor.submit(here)

        def submitter():
            try:
                executor.submit(int)
            except nocter.Closed as problem:
                ended.append(problem)

        thread = threading.Thread(target=submitter)
        thread.start()
        wait_for(lambda: executor.count().saturated >= 1)
        executor.shutdown(wait=False, cancel_futures=cancel)
        here.opened.set()
        thread.join(20)
        assert len(ended) == 1
        executor.shutdown()


@pytest.mark.parametrize(
    "arguments, kind",
    [
        ({"max_workers": 0}, nocter.ArgumentError),
        ({"max_workers": -1}, ValueError),
        ({"max_workers": 4, "maximum_jobs": 3}, nocter.ArgumentError),
        ({"max_workers": 1, "saturation": "wait"}, ValueError),
        ({"max_workers": "two"}, TypeError),
    ],
)
def test_gen_02_misuse_is_an_exception_and_starts_no_thread(arguments, kind):
    before = set(threading.enumerate())
    with pytest.raises(kind):
        nocter.Executor(**arguments)
    assert set(threading.enumerate()) <= before


def test_bnd_03_threads_have_names_and_are_as_many_as_asked():
    with nocter.Executor(3, thread_name_prefix="crew") as executor:
        barrier = threading.Barrier(3)

        def name():
            barrier.wait(20)
            return threading.current_thread().name

        futures = [executor.submit(name) for _ in range(3)]
        assert {future.result(20) for future in futures} == {"crew_0", "crew_1", "crew_2"}
        assert repr(executor) == "<nocter.Executor <nocter.Blocking open, 0 of 1024 jobs, 0 running on 3 workers>>"


def test_b_38_a_thread_that_cannot_be_made_fails_the_whole_call(monkeypatch, wait_for):
    started = []
    start = threading.Thread.start

    def limited(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="can't start"):
        nocter.Executor(4)
    monkeypatch.undo()
    assert len(started) == 2
    wait_for(lambda: not any(thread.is_alive() for thread in started))


def test_bnd_03_a_forgotten_executor_ends_its_work_and_its_threads(wait_for):
    gate = Gate()
    executor = nocter.Executor(2)
    threads, watched = list(executor._crew.threads), weakref.ref(executor)
    futures = [executor.submit(gate, number) for number in range(5)]
    del executor
    gc.collect()
    assert watched() is None
    gate.opened.set()
    assert [future.result(10) for future in futures] == list(range(5))
    wait_for(lambda: not any(thread.is_alive() for thread in threads))


def test_bnd_03_no_reference_is_leaked(choices):
    watched = weakref.WeakSet()

    def thing():
        new = Thing()
        watched.add(new)
        return new

    def job(given, fail):
        new = thing()
        if fail:
            raise ValueError(given, new)
        return new

    executor = nocter.Executor(2, maximum_jobs=32)
    futures = []
    for _ in range(2000):
        future = executor.submit(functools.partial(job, fail=choices.random() < 0.3), given=thing())
        watched.add(future)
        if choices.random() < 0.2:
            future.cancel()
        futures.append(future)
        if len(futures) > 50:
            futures.pop(choices.randrange(50)).cancelled()
    executor.shutdown(cancel_futures=choices.random() < 0.5)
    assert len(executor._crew.values) == 0 and identities(executor).admitted == 0
    crew = weakref.ref(executor._crew)
    del executor, future, futures
    gc.collect()
    assert len(watched) == 0 and crew() is None


def test_bnd_03_an_idle_worker_keeps_nothing_of_its_last_job(wait_for):
    def fail(given):
        raise ValueError(given)

    with nocter.Executor(1) as executor:
        for function in (id, fail):
            thing = Thing()
            watched = weakref.ref(thing)
            future = executor.submit(function, thing)
            future.exception(10)
            del future, thing
            gc.disable()  # by counting alone: no cycle may keep it either
            try:
                wait_for(lambda: watched() is None)
            finally:
                gc.enable()


def test_bnd_03_await_through_asyncio():
    async def main():
        loop = asyncio.get_running_loop()
        with nocter.Executor(2, maximum_jobs=16) as executor:
            results = await asyncio.gather(*[loop.run_in_executor(executor, pow, number, 2) for number in range(100)])
            wrapped = await asyncio.wrap_future(executor.submit(pow, 3, 3))
            with pytest.raises(ZeroDivisionError):
                await loop.run_in_executor(executor, lambda: 1 // 0)
            gate = Gate()
            blocked = [loop.run_in_executor(executor, gate) for _ in range(2)]
            queued = loop.run_in_executor(executor, int)
            queued.cancel()
            while not identities(executor).cancelled_queued:  # asyncio passes it on in one of its next turns
                await asyncio.sleep(0.001)
            gate.opened.set()
            await asyncio.gather(*blocked)
            return results, wrapped, identities(executor).cancelled_queued

    results, wrapped, cancelled = asyncio.run(main())
    assert results == [number**2 for number in range(100)] and wrapped == 27 and cancelled == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_blk_06_b_15_a_thread_that_is_ended_loses_its_worker_and_says_so():
    """An exception is thrown into a thread where no job is there to catch it: between its claim and the job."""
    executor = nocter.Executor(1)
    thread = executor._crew.threads[0]
    executor.submit(int).result(10)
    time.sleep(0.05)  # it waits in the library by now, and sees the exception when it comes back with the next job
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    future = executor.submit(int)
    with pytest.raises(nocter.WorkerLost, match="ended"):
        future.result(10)
    thread.join(10)
    assert not thread.is_alive()
    now = identities(executor)
    assert (now.completed_lost, now.admitted, len(executor._crew.values)) == (1, 0, 0)
    executor.shutdown()
