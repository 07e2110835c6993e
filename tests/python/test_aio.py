"""Awaiting jobs on an asyncio loop."""

import asyncio
import ctypes
import gc
import importlib
import importlib.util
import os
import threading
import time
import weakref

import pytest

import nocter
import nocter.aio


class Thing:
    """Something whose end can be watched."""


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """As those of other systems are, and of some libraries."""

    def add_reader(self, *_):
        raise NotImplementedError

    def remove_reader(self, *_):
        raise NotImplementedError


LOOPS = {"asyncio": asyncio.SelectorEventLoop, "without_readers": LoopWithoutReaders}
if importlib.util.find_spec("uvloop"):  # Debian packages it for its own interpreter alone
    LOOPS["uvloop"] = importlib.import_module("uvloop").new_event_loop
chosen = LOOPS["asyncio"]
for make in LOOPS.values():  # the first of a kind may open what the process keeps, and tests count descriptors
    with asyncio.Runner(loop_factory=make) as first:
        first.run(asyncio.sleep(0))


@pytest.fixture(autouse=True, params=LOOPS)
def loop(request):
    """Every test on every kind of loop."""
    global chosen
    chosen = LOOPS[request.param]
    yield
    chosen = LOOPS["asyncio"]


def run(main):
    with asyncio.Runner(loop_factory=chosen) as runner:
        return runner.run(asyncio.wait_for(main(), 30))


def identities(executor):
    now = executor.count()
    freed = now.taken + now.cancelled_queued + now.cancelled_completed + now.abandoned_retired
    assert now.accepted == freed + now.shutdown_queued + now.shutdown_completed + now.admitted
    return now


async def until(condition):
    while not condition():
        await asyncio.sleep(0.002)


def test_bnd_03_await_gives_results_and_exceptions():
    async def main():
        async with nocter.aio.Executor(2) as executor:
            assert await executor.run(pow, 2, exp=10) == 1024
            with pytest.raises(ZeroDivisionError):
                await executor.run(lambda: 1 // 0)
            with pytest.raises(SystemExit):
                await executor.run(os.sys.exit, 3)
            name = await executor.run(lambda: threading.current_thread().name)
            assert name.startswith("nocter_") and "nocter.aio.Executor" in repr(executor)
        assert identities(executor).taken == 4
        assert not any(thread.is_alive() for thread in executor._crew.threads)
        with pytest.raises(nocter.Closed):
            await executor.run(int)
        await executor.aclose()

    run(main)


def test_blk_14_thousands_at_once_beyond_every_batch_and_bound():
    async def main():
        async with nocter.aio.Executor(2, maximum_jobs=2000) as executor:
            assert await asyncio.gather(*[executor.run(abs, -n) for n in range(3000)]) == list(range(3000))
        async with nocter.aio.Executor(2, maximum_jobs=3) as executor:
            assert await asyncio.gather(*[executor.run(abs, -n) for n in range(500)]) == list(range(500))
        now = identities(executor)
        assert now.saturated > 0 and now.taken == 500 and now.admitted == 0

    run(main)


def test_blk_14_the_loop_runs_while_jobs_block():
    async def main():
        async with nocter.aio.Executor(1) as executor:
            gate = threading.Event()
            blocked = asyncio.ensure_future(executor.run(gate.wait, 20))
            await asyncio.sleep(0.02)
            assert not blocked.done()
            gate.set()
            assert await blocked is True

    run(main)


def test_blk_09_cancelling_takes_back_what_nobody_began_and_abandons_what_runs():
    async def main():
        gate, ran = threading.Event(), []
        async with nocter.aio.Executor(1) as executor:
            running = asyncio.ensure_future(executor.run(gate.wait, 20))
            queued = asyncio.ensure_future(executor.run(ran.append, 1))
            await until(lambda: executor.count().running == 1 and executor.count().queued == 1)
            queued.cancel()
            running.cancel()
            for task in (queued, running):
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert (executor.count().cancelled_queued, executor.count().abandoned) == (1, 1)
            gate.set()
            await until(lambda: executor.count().abandoned_retired == 1)
            assert await executor.run(int, 5) == 5
        assert ran == [] and identities(executor).admitted == 0

    run(main)


def test_blk_09_b_2_a_result_that_came_first_is_delivered():
    async def main():
        async with nocter.aio.Executor(1) as executor:
            task = asyncio.ensure_future(executor.run(int, 7))
            await asyncio.sleep(0)
            while executor.count().completed == 0:  # ended, and the loop has had no turn to see it
                time.sleep(0.001)
            task.cancel()
            assert await task == 7
        # Asked for by the cancel, or taken by the loop in the same turn.
        now = identities(executor)
        assert now.cancelled_completed + now.taken == 1

    run(main)


def test_blk_09_a_wait_for_a_free_place_can_be_cancelled():
    async def main():
        gate = threading.Event()
        async with nocter.aio.Executor(1, maximum_jobs=1) as executor:
            running = asyncio.ensure_future(executor.run(gate.wait, 20))
            waiting = [asyncio.ensure_future(executor.run(int, number)) for number in range(3)]
            await until(lambda: executor.count().saturated >= 3)
            waiting[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
            gate.set()
            assert await asyncio.gather(running, *waiting[1:]) == [True, 1, 2]

    run(main)


def test_gen_07_timeouts_of_asyncio_end_an_await():
    async def main():
        gate = threading.Event()
        async with nocter.aio.Executor(1) as executor:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(executor.run(gate.wait, 20), 0.05)
            gate.set()

    run(main)


def test_gen_07_blk_09_asyncio_timeout_abandons_the_job_and_the_task_goes_on():
    async def main():
        gate = threading.Event()
        async with nocter.aio.Executor(1, maximum_jobs=2) as executor:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await executor.run(gate.wait, 20)
            assert executor.count().abandoned == 1
            gate.set()
            async with asyncio.timeout(20):
                assert await executor.run(int, 6) == 6
            assert asyncio.current_task().cancelling() == 0

    run(main)


def test_blk_09_b_2_a_result_that_came_before_the_timeout_is_delivered_and_no_timeout_raised():
    async def main():
        async with nocter.aio.Executor(1) as executor:
            async with asyncio.timeout(None) as limit:
                task = asyncio.current_task()

                def late():  # runs in the turn of the loop in which the timeout fires, before the reader
                    while executor.count().completed_ok == 0:
                        time.sleep(0.001)
                    limit.reschedule(0)

                asyncio.get_running_loop().call_soon(late)
                assert await executor.run(int, 8) == 8
            assert task.cancelling() == 0
        assert identities(executor).admitted == 0

    run(main)


def test_blk_09_a_task_group_whose_one_job_fails_gives_the_others_up():
    async def main():
        gate, ran = threading.Event(), []

        def fail():
            time.sleep(0.05)
            raise KeyError("one of them")

        async with nocter.aio.Executor(2, maximum_jobs=8) as executor:
            with pytest.raises(BaseExceptionGroup) as caught:
                async with asyncio.TaskGroup() as group:
                    group.create_task(executor.run(gate.wait, 20))
                    group.create_task(executor.run(fail))
                    for number in range(8):
                        group.create_task(executor.run(lambda: gate.wait(20) and ran.append(1)))
            assert [type(each) for each in caught.value.exceptions] == [KeyError]
            now = executor.count()
            assert now.queued == now.running == now.completed == 0 and 1 <= now.abandoned <= 2
            gate.set()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(executor.run(abs, -number)) for number in range(20)]
            assert [task.result() for task in tasks] == list(range(20))
        assert len(ran) <= 1 and identities(executor).admitted == 0

    run(main)


def test_blk_14_several_executors_share_the_one_descriptor_of_their_loop():
    async def main():
        descriptors = len(os.listdir("/proc/self/fd"))
        async with nocter.aio.Executor(1) as first, nocter.aio.Executor(2, maximum_jobs=3) as second:
            mine = first._watch
            assert second._watch is mine
            # a thread that reads has one more, to be stopped by
            assert len(os.listdir("/proc/self/fd")) - descriptors <= (1 if mine._reader._thread is None else 2)
            calls = [each.run(abs, -number) for number in range(200) for each in (first, second)]
            assert await asyncio.gather(*calls) == [number for number in range(200) for _ in range(2)]
            await second.aclose()
            assert await first.run(int, 3) == 3
        assert mine._reader is None

    run(main)


def test_gen_01_a_loop_that_is_closed_with_jobs_in_flight_and_an_executor_that_is_forgotten(wait_for):
    gate, crews = threading.Event(), []

    async def leave():
        executor = nocter.aio.Executor(2, maximum_jobs=8)
        crews.append(weakref.ref(executor._crew))
        tasks = [asyncio.ensure_future(executor.run(gate.wait, 20)) for _ in range(5)]
        await until(lambda: executor.count().running == 2)
        return executor._crew.threads, weakref.ref(executor), tasks

    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    runner = asyncio.Runner(loop_factory=chosen)
    threads, executor, tasks = runner.run(leave())
    runner.close()  # cancels the tasks
    assert all(task.cancelled() for task in tasks)
    del tasks, runner
    gate.set()
    gc.collect()
    assert executor() is None
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    del threads
    gc.collect()
    assert crews[0]() is None

    def closed_again():
        gc.collect()  # a thread that reads for a loop may have held it in the moment of the last one
        return len(os.listdir("/proc/self/fd")) <= descriptors

    wait_for(closed_again)


def test_gen_01_a_loop_that_is_closed_before_it_has_made_the_call_that_a_thread_asked_for(wait_for):
    asked = threading.Event()

    class Loop(LoopWithoutReaders):
        def call_soon_threadsafe(self, *arguments, **keywords):
            super().call_soon_threadsafe(*arguments, **keywords)
            asked.set()

    async def make():
        return nocter.aio.Executor(1)

    loop = Loop()
    executor = loop.run_until_complete(make())
    reader, crew = executor._watch._reader._thread._thread, executor._crew.threads[0]
    notifier = executor._watch.eventfd._notifier()
    notifier.wake(notifier.user)
    notifier.drop(notifier.user)
    assert asked.wait(20)  # from here on it waits for the call, which the loop will never make
    loop.close()
    del executor, loop, notifier

    def ended():
        gc.collect()  # again, for the reader may have held the loop in the moment of the last one
        return not crew.is_alive() and not reader.is_alive()

    wait_for(ended)


def test_blk_11_closing_waits_and_closing_after_an_exception_does_not():
    async def main():
        executor = nocter.aio.Executor(2)
        tasks = [asyncio.ensure_future(executor.run(time.sleep, 0.02)) for _ in range(6)]
        await asyncio.sleep(0)
        await executor.aclose()
        assert await asyncio.gather(*tasks) == [None] * 6 and identities(executor).taken == 6

        gate, executor = threading.Event(), nocter.aio.Executor(1, maximum_jobs=2)
        tasks = [asyncio.ensure_future(executor.run(gate.wait, 20)) for _ in range(3)]
        await until(lambda: executor.count().running == 1 and executor.count().saturated)
        threading.Timer(0.05, gate.set).start()
        with pytest.raises(KeyError):
            async with executor:
                raise KeyError("left")
        for task in tasks:
            with pytest.raises(nocter.Closed):
                await task
        now = identities(executor)
        assert (now.shutdown_queued, now.abandoned_retired, now.admitted) == (1, 1, 0)

    run(main)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_blk_06_b_15_a_thread_that_is_ended_loses_its_worker_and_the_awaiting_task_is_told():
    async def main():
        executor = nocter.aio.Executor(1)
        await executor.run(int)
        thread = executor._crew.threads[0]
        await asyncio.sleep(0.05)  # it waits in the library by now, and sees the exception with the next job
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        with pytest.raises(nocter.WorkerLost):
            await executor.run(int)
        await executor.aclose()
        now = identities(executor)
        assert (now.completed_lost, now.admitted, len(executor._crew.values)) == (1, 0, 0)

    run(main)


@pytest.mark.parametrize("begun", [True, False])
def test_blk_11_closing_more_than_once_at_a_time_ends_every_wait(begun):
    async def main():
        gate, executor = threading.Event(), nocter.aio.Executor(1, maximum_jobs=2)
        tasks = [asyncio.ensure_future(executor.run(gate.wait, 20)) for _ in range(2 if begun else 4)]
        await until(lambda: executor.count().running == 1 and (begun or executor.count().saturated))
        closing = [executor.aclose(), executor.aclose(), executor.aclose(cancel=True), executor.aclose(cancel=True)]
        closing = [asyncio.ensure_future(each) for each in closing]
        await asyncio.sleep(0.02)
        assert not closing[0].done()
        gate.set()
        await asyncio.gather(*closing)
        for task in tasks:
            with pytest.raises(nocter.Closed):
                await task

        executor = nocter.aio.Executor(1)
        opened = threading.Event()
        task = asyncio.ensure_future(executor.run(opened.wait, 20))
        await asyncio.sleep(0)  # submitted, and perhaps queued yet
        asyncio.get_running_loop().call_later(0.02, opened.set)
        await asyncio.gather(executor.aclose(), executor.aclose(cancel=True), executor.aclose())
        with pytest.raises(nocter.Closed):
            await task

    run(main)


def test_bnd_03_no_reference_is_leaked(choices):
    watched = weakref.WeakSet()

    def thing():
        new = Thing()
        watched.add(new)
        return new

    def job(given, fail):
        if fail:
            raise ValueError(given, thing())
        return thing()

    async def main():
        executor = nocter.aio.Executor(2, maximum_jobs=32)
        async with executor:
            tasks = [asyncio.ensure_future(executor.run(job, thing(), choices.random() < 0.3)) for _ in range(1000)]
            await asyncio.sleep(0)
            for task in tasks:
                if choices.random() < 0.3:
                    task.cancel()
                    await asyncio.sleep(0)
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert len(outcomes) == 1000
        assert len(executor._crew.values) == len(executor._jobs) == 0 and identities(executor).admitted == 0
        return weakref.ref(executor._crew)

    gc.collect()
    descriptors = len(os.listdir("/proc/self/fd"))
    crew = run(main)
    gc.collect()
    assert len(watched) == 0 and crew() is None
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("arguments", [{"max_workers": 0}, {"max_workers": 3, "maximum_jobs": 2}])
def test_gen_02_misuse_is_an_exception(arguments):
    async def main():
        with pytest.raises(nocter.ArgumentError):
            nocter.aio.Executor(**arguments)

    run(main)
    with pytest.raises(RuntimeError):  # no running loop
        nocter.aio.Executor(1)


def test_ffi_10_leaving_the_interpreter_with_jobs_in_flight(python):
    process = python(
        """
        import asyncio, time, nocter.aio
        async def main():
            executor = nocter.aio.Executor(2)
            tasks = [asyncio.ensure_future(executor.run(time.sleep, 60)) for _ in range(100)]
            await asyncio.sleep(0.05)
            print(time.monotonic(), flush=True)
        asyncio.run(main())
        """
    )
    assert process.returncode == 0, process.err
    assert time.monotonic() - float(process.out) < 2.0


def test_ffi_11_a_forked_child_is_told(python):
    process = python(
        """
        import asyncio, os, nocter, nocter.aio
        async def main():
            executor = nocter.aio.Executor(1)
            assert await executor.run(int, 3) == 3
            child = os.fork()
            if child == 0:
                try:
                    await executor.run(int, 3)
                except nocter.Forked:
                    os._exit(4)
                os._exit(5)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
            assert await executor.run(int, 4) == 4
            await executor.aclose()
        asyncio.run(main())
        """
    )
    assert process.returncode == 0, process.err
