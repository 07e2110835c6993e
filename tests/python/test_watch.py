"""Every kind of service awaited on an asyncio loop, by one descriptor."""

import asyncio
import gc
import os
import threading
import time
import weakref

import pytest

import nocter
from nocter import Notified
from nocter.aio import Watch


def run(main):
    return asyncio.run(asyncio.wait_for(main(), 30))


def test_bnd_03_retirements_are_awaited():
    async def main():
        with Watch() as watch:
            service = nocter.Retirement(2, 1, waiters=watch.eventfd)
            with service.serve():
                gate = threading.Event()
                slow = (await watch.reserve(service)).attach("slow", lambda: gate.wait(20) and 3).retire()
                other = (await watch.reserve(service)).attach("other").retire()
                third = asyncio.ensure_future(watch.reserve(service))
                taken = [asyncio.ensure_future(watch.take(service, id)) for id in (slow, other)]
                await asyncio.sleep(0.03)
                assert not third.done() and not taken[0].done() and repr(watch) == "<nocter.aio.Watch 3 waiting>"
                gate.set()
                assert await asyncio.gather(*taken) == [3, 0]
                (await third).close()
                service.shutdown()
                await watch.drained(service)
                with pytest.raises(nocter.Closed):
                    await watch.reserve(service)
                with pytest.raises(nocter.UnknownIdentity):
                    await watch.take(service, slow)

    run(main)


def test_bnd_03_passes_are_awaited_and_the_loop_keeps_the_time():
    async def main():
        with Watch() as watch:
            queue, seen = nocter.Keyed(2, 1, waiters=watch.eventfd, work=watch.eventfd), []

            async def make():
                async for made in watch.passes(queue):
                    seen.append((made.key, made.failures))
                    await asyncio.sleep(0)
                    if made.key == b"again" and made.failures < 2:
                        made.retry_after(0.01)
                    elif made.key != b"left":
                        made.complete()

            maker = asyncio.ensure_future(make())
            await asyncio.sleep(0.01)
            assert queue.notify_after("later", 0.05) is Notified.ACCEPTED
            started = time.monotonic()
            for key in ("again", "left", "well"):
                await watch.notify(queue, key)
            while len(seen) < 6:
                await asyncio.sleep(0.002)
            assert time.monotonic() - started >= 0.04
            assert sorted(seen) == [(b"again", 0), (b"again", 1), (b"again", 2), (b"later", 0), (b"left", 0), (b"well", 0)]
            queue.shutdown(drain=True)
            await watch.drained(queue)
            await maker
            now = queue.count()
            assert (now.completed, now.failed, now.retained) == (3, 3, 0)

    run(main)


def test_key_10_a_resync_is_driven_by_the_loop():
    async def main():
        with Watch() as watch:
            queue, seen = nocter.Keyed(8, 1, work=watch.eventfd), set()
            await asyncio.sleep(0)
            waiting = asyncio.ensure_future(watch.claim(queue))
            await asyncio.sleep(0.01)
            queue.resync(lambda: ["a", "b", "c"], 0.01, 1)
            made = await waiting
            while len(seen) < 3:
                seen.add(made.key)
                made.complete()
                made = await watch.claim(queue)
            made.complete()

            def fails():
                raise LookupError
                yield

            queue.resync(fails, 0.001, 1)
            with pytest.raises(LookupError):
                while True:
                    (await watch.claim(queue)).complete()

    run(main)


def test_blk_14_one_descriptor_for_every_kind_of_service():
    async def main():
        with Watch() as watch:
            before = len(os.listdir("/proc/self/fd"))
            eventfd = watch.eventfd
            jobs = nocter.Blocking(64, 2, waiters=eventfd, work=eventfd)
            retirement = nocter.Retirement(64, 2, waiters=eventfd, work=eventfd)
            queue = nocter.Keyed(64, 2, waiters=eventfd, work=eventfd)
            assert len(os.listdir("/proc/self/fd")) <= before

            def work():
                try:
                    while True:
                        value, completion = jobs.claim().begin()
                        queue.notify(str(value))
                        completion.complete(value)
                except nocter.Closed:
                    pass

            async def one(number):
                permit = await watch.reserve(retirement)
                job = await watch.until(lambda: jobs.submit(number))
                assert await watch.until(lambda: jobs.take(job, timeout=0)) == number
                return await watch.take(retirement, permit.attach(number, lambda: number).retire())

            thread = threading.Thread(target=work)
            thread.start()
            seen = set()

            async def make():
                async for made in watch.passes(queue):
                    seen.add(int(made.key))
                    made.complete()

            maker = asyncio.ensure_future(make())
            with retirement.serve():
                assert await asyncio.gather(*[one(number) for number in range(300)]) == list(range(300))
            queue.shutdown(drain=True)
            await maker
            jobs.shutdown()
            await watch.drained(jobs)
            thread.join(10)
            assert seen == set(range(300))

    run(main)


def test_bnd_03_under_timeout_and_task_group():
    async def main():
        with Watch() as watch:
            queue = nocter.Keyed(4, 2, work=watch.eventfd)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await watch.claim(queue)
            queue.notify("a")
            async with asyncio.timeout(5):
                (await watch.claim(queue)).complete()  # what was cancelled has taken nothing
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(watch.claim(queue))
                    group.create_task(watch.until(lambda: 1 // 0))
            queue.notify("b")
            made = await watch.claim(queue)
            assert made.key == b"b"
            made.complete()
            await asyncio.sleep(0)
            assert watch._waiting == {}

    run(main)


def test_bnd_03_a_result_that_was_there_before_the_cancellation_is_delivered():
    async def main():
        with Watch() as watch:
            queue = nocter.Keyed(4, 2, work=watch.eventfd)
            task = asyncio.ensure_future(watch.claim(queue))
            await asyncio.sleep(0.01)
            queue.notify("a")
            watch._look()  # the loop has read the descriptor, and the task has not run yet
            assert task.cancel()
            made = await task
            assert made.key == b"a" and queue.count().active == 1
            made.complete()
            assert queue.count().failed == 0

    run(main)


def test_bnd_03_closing_a_watch_ends_what_is_awaited():
    async def main():
        watch = Watch()
        queue = nocter.Keyed(4, 2, work=watch.eventfd)
        queue.notify_after("later", 3600)
        task = asyncio.ensure_future(watch.claim(queue))
        await asyncio.sleep(0.01)
        watch.close()
        watch.close()
        with pytest.raises(nocter.Closed):
            await task
        with pytest.raises(nocter.Closed):
            await watch.claim(queue)
        assert repr(watch) == "<nocter.aio.Watch closed>" and watch._timer is None

    run(main)


def test_bnd_03_loops_that_end_with_everything_awaited_leave_nothing():
    kept = []

    async def main():
        watch = Watch()
        kept.append(weakref.ref(watch))
        queue = nocter.Keyed(4, 2, work=watch.eventfd)
        queue.notify_after("later", 3600)
        for _ in range(10):
            asyncio.ensure_future(watch.claim(queue))
        await asyncio.sleep(0.005)

    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        asyncio.run(main())
    gc.collect()
    assert [each for each in kept if each() is not None] == [] and len(os.listdir("/proc/self/fd")) <= before
