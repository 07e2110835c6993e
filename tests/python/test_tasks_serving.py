"""Durable tasks from Python, served: threads and loops that claim, stops that hand back, waits that end."""

import asyncio
import gc
import logging
import os
import signal
import threading
import time
import weakref

import pytest

import nocter
from nocter import tasks as durable
from nocter.tasks import Status


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    url = "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/work.db"
    with durable.open(url, normal_sync=True, events=True) as opened:
        yield opened


def sum_tree(ctx):
    depth = ctx.payload
    if not ctx.resumed and depth:
        for _ in range(2):
            ctx.submit_child("tree", depth - 1)
        return durable.suspend_until_children()
    return 1 + sum(child.result for child in ctx.children())


async def async_tree(ctx):
    await asyncio.sleep(0)
    return sum_tree(ctx)


@pytest.mark.parametrize("handler", [sum_tree, async_tree])
def test_tsk_05_a_tree_of_tasks_is_worked_off_by_threads_or_a_loop(store, handler):
    store.handler("tree")(handler)
    with store.serve(4):
        assert store.wait(store.submit("tree", 4), timeout=30).value() == 31
    now = store.count()
    assert (now.completed, now.running, now.suspended, now.repairs) == (31, 0, 0, 0)


def test_bnd_03_decorators_keep_the_function_and_both_kinds_may_be_mixed(store):
    @store.handler("slow")
    def slow(ctx):
        return threading.current_thread().name

    @store.handler("quick")
    async def quick(ctx):
        return threading.current_thread().name

    assert callable(slow) and asyncio.iscoroutinefunction(quick)
    with store.serve(2, name="mine") as workers:
        ids = [store.submit(name) for name in ("slow", "quick") for _ in range(5)]
        names = [store.wait(id, timeout=20).value() for id in ids]
        assert workers.alive == 3
    assert all(name.startswith("mine_") for name in names[:5]) and set(names[5:]) == {"nocter_loop"}
    assert workers.alive == 0
    with pytest.raises(ValueError, match="no handler"):
        store.serve(1, {})


def test_tsk_02_tsk_29_async_handlers_run_on_the_loop_of_who_serves(store):
    async def main():
        here = threading.get_ident()

        @store.handler("where")
        async def where(ctx):
            await asyncio.sleep(0.01)
            return threading.get_ident() == here

        async with store.serve(50) as workers:
            ids = store.submit_many([durable.Submission("where")] * 60)
            assert all(await asyncio.gather(*map(store.result, ids)))
            with pytest.raises(nocter.WouldDeadlock):
                workers.stop()
            told = []
            async for event in store.events():
                told.append(event.kind)
                if len(told) == 180:
                    break
        assert told.count(durable.EventKind.ENDED) == 60

    asyncio.run(main())


def test_tsk_11_a_cancel_cancels_the_coroutine(store):
    async def main():
        begun, ended = asyncio.Event(), asyncio.Event()

        @store.handler("endless")
        async def endless(ctx):
            begun.set()
            try:
                await asyncio.sleep(100)
            finally:
                assert ctx.cancelled
                ended.set()

        async with store.serve(1):
            id = store.submit("endless")
            await begun.wait()
            store.cancel(id)
            await ended.wait()
            with pytest.raises(nocter.Cancelled):
                await store.result(id)
        assert store.get(id).attempt == 0 or store.get(id).status == Status.CANCELLED

    asyncio.run(main())


def test_tsk_14_a_stop_hands_back_what_async_handlers_run(store):
    begun = threading.Event()

    @store.handler("endless")
    async def endless(ctx):
        begun.set()
        await asyncio.sleep(100)

    workers = store.serve(1)
    id = store.submit("endless")
    assert begun.wait(10)
    workers.stop(timeout=10)
    record = store.get(id)
    assert (record.status, record.attempt, record.failure) == (Status.QUEUED, 0, None)


def test_tsk_14_a_stop_is_told_to_handlers_that_block(store):
    begun = threading.Event()

    @store.handler("long")
    def long(ctx):
        begun.set()
        while not ctx.interrupted:
            time.sleep(0.005)
        assert ctx.reason == durable.Reason.STOP
        return durable.hand_back()

    workers = store.serve(1)
    id = store.submit("long")
    assert begun.wait(10)
    workers.stop(timeout=10)
    assert (store.get(id).status, store.get(id).attempt) == (Status.QUEUED, 0)


def test_tsk_11_the_interrupt_of_a_run_ends_its_waits(store):
    begun, signal_ = threading.Event(), nocter.Signal()

    @store.handler("waits")
    def waits(ctx):
        begun.set()
        signal_.wait(signal_.version, interrupt=ctx.interrupt)

    with store.serve(1):
        id = store.submit("waits")
        assert begun.wait(10)
        store.cancel(id)
        assert store.wait(id, timeout=10).status == Status.CANCELLED


def test_tsk_16_a_failing_handler_is_logged_and_kept(store, caplog):
    caplog.set_level(logging.INFO, logger="nocter")

    @store.handler("bad")
    async def bad(ctx):
        raise KeyError("gone")

    with store.serve(1):
        record = store.wait(store.submit("bad"), timeout=10)
    assert (record.status, record.failure.kind, record.failure.message) == (Status.FAILED, "KeyError", "'gone'")
    assert "raise KeyError" in record.failure.detail
    assert any("has failed" in line.message and line.exc_info for line in caplog.records)


def test_tsk_29_a_wait_ends_by_ctrl_c_timeout_and_interrupt(store):
    id = store.submit("nobody")
    with pytest.raises(nocter.Timeout):
        store.wait(id, timeout=0.02)
    interrupt = nocter.Interrupt()
    interrupt.raise_()
    with pytest.raises(nocter.Interrupted):
        store.wait(id, interrupt=interrupt)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        store.wait(id, timeout=20)
    assert time.monotonic() - began < 5


def test_bnd_03_an_awaited_task_may_be_cancelled_in_asyncio(store, wait_for):
    async def main():
        id = store.submit("nobody")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(store.result(id), 0.05)
        async with store.lock("name", timeout=0) as lock:
            with pytest.raises(nocter.Timeout):
                async with store.lock("name", timeout=0.02):
                    pass
        assert lock.closed

    asyncio.run(main())
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == "nocter_wait"])


def test_bnd_03_closing_the_store_ends_its_workers_and_waits(tmp_path, wait_for):
    store = durable.open(f"sqlite:{tmp_path}/work.db")
    store.handler("work")(lambda ctx: None)
    workers = store.serve(2)
    id = store.submit("nobody")
    said = []

    def waits():
        try:
            store.wait(id)
        except Exception as problem:
            said.append(type(problem))

    thread = threading.Thread(target=waits)
    thread.start()
    time.sleep(0.1)
    store.close()
    thread.join(10)
    wait_for(lambda: workers.alive == 0)
    assert said == [nocter.Closed]


def test_bnd_03_the_store_is_an_async_context_and_leaves_nothing_behind(tmp_path):
    async def main():
        async with durable.open(f"sqlite:{tmp_path}/work.db") as store:
            store.handler("work")(async_tree)
            async with store.serve(2):
                await store.result(store.submit("work", 0))
            return weakref.ref(store)

    gone = asyncio.run(main())
    gc.collect()
    assert gone() is None


def test_bnd_03_a_process_that_ends_while_it_serves_ends_at_once(python, tmp_path):
    process = python(
        f"""
        import time
        from nocter import tasks
        store = tasks.open("sqlite:{tmp_path}/work.db")
        @store.handler("work")
        def work(ctx):
            time.sleep(0.2)
        @store.handler("later")
        async def later(ctx):
            pass
        workers = store.serve(3)
        for _ in range(10):
            store.submit("work")
            store.submit("later")
        time.sleep(0.1)
        print("ends")
        """
    )
    assert (process.returncode, process.out, process.err) == (0, "ends\n", "")
    assert process.seconds < 10
