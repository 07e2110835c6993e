"""Durable tasks from Python where things go wrong: forks, threads that race, objects that are left, statuses as exceptions."""

import asyncio
import contextlib
import gc
import os
import resource
import threading
import weakref

import pytest

import nocter
from nocter import tasks as durable
from nocter._native import lib
from nocter.tasks import Status, Submission


def test_ffi_11_a_forked_child_is_told(python, tmp_path):
    process = python(
        f"""
        import os, nocter
        from nocter import tasks as durable

        def refuses(call, *arguments):
            try:
                call(*arguments)
            except nocter.Forked as problem:
                assert problem.status == -13, problem.status
                return
            raise AssertionError(f"{{call}} worked in the child")

        store = durable.open("sqlite:{tmp_path}/work.db", events=True)
        id, other = store.submit("work"), store.submit("other")
        run = store.claim(["work"], timeout=0)[0]
        lock, clock = store.lock("name", timeout=0).acquire(), durable.Clock()
        child = os.fork()
        if child == 0:
            for call in (store.count, store.list, store.maintain, store.purge, run.done, run.children, run.atomic, lock.renew):
                refuses(call)
            for call in (store.submit, store.claim):
                refuses(call, "x" if call == store.submit else None)
            for call in (store.get, store.children, store.wait, store.cancel, store.retry, store.notify):
                refuses(call, other)
            refuses(store.shared("scope").get, "k")
            refuses(store.events().read)
            refuses(run.step, "s", dict)
            refuses(run.notify_parent)
            for each in (lock, run, store, clock):
                each.close()
            with durable.open("memory:") as fresh:
                fresh.submit("work")
            with durable.open("sqlite:{tmp_path}/work.db") as again:
                assert again.get(other).status.name == "QUEUED"
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        run.done("by the parent")
        lock.release()
        assert store.wait(id).value() == "by the parent"
        store.close()
        print("fine")
        """
    )
    assert (process.returncode, process.out, process.err) == (0, "fine\n", "")


def test_bnd_03_statuses_become_exceptions_of_one_tree():
    kinds = {
        "EXISTS": nocter.Exists,
        "HELD": nocter.Held,
        "CANCELLED": nocter.Cancelled,
        "E_JSON": nocter.JsonError,
        "E_LIMIT": nocter.LimitError,
        "E_STORE": nocter.StoreError,
        "E_UNAVAILABLE": nocter.Unavailable,
        "E_LEASE_LOST": nocter.LeaseLost,
        "E_VERSION": nocter.VersionError,
    }
    for name, kind in kinds.items():
        problem = nocter._errors.error(getattr(lib, f"NOCTER_{name}"))
        assert type(problem) is kind and isinstance(problem, nocter.Error) and f"NOCTER_{name}" in str(problem)
    assert issubclass(nocter.JsonError, ValueError) and issubclass(durable.TaskFailed, nocter.Error)
    assert durable.Tasks.__module__ == durable.Run.__module__ == "nocter.tasks"


def test_tsk_25_files_that_are_no_store_are_refused(tmp_path):
    (tmp_path / "text.db").write_text("this is no database, and long enough to be read as one" * 100)
    with pytest.raises((nocter.StoreError, nocter.VersionError)):
        durable.open(f"sqlite:{tmp_path}/text.db")
    with pytest.raises(nocter.StoreError):
        durable.open(f"sqlite:{tmp_path}/nowhere/work.db")
    for url in ("", "sqlite:", "memory", "mysql://host/work"):
        with pytest.raises(nocter.ArgumentError):
            durable.open(url)


def test_sec_03_tsk_25_a_server_that_is_not_there_is_named_in_one_line(tmp_path):
    with pytest.raises(nocter.Unavailable) as error:
        durable.open(f"postgresql://me:canary@/work?host={tmp_path}")
    assert str(tmp_path) in str(error.value) and "canary" not in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_shr_01_shr_04_racing_threads_have_one_winner_and_rising_fences(kind, tmp_path):
    with durable.open("memory:" if kind == "memory" else f"sqlite:{tmp_path}/work.db", normal_sync=True) as store:
        won, fences, barrier = [], [], threading.Barrier(8)

        def race(number):
            barrier.wait()
            for round in range(10):
                if store.shared("race").put_if_absent(str(round), number)[0]:
                    won.append((round, number))
                with store.lock("name", timeout=20) as lock:
                    fences.append(lock.fence)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert dict(won) == {int(key): value for key, value in store.shared("race").all().items()} and len(won) == 10
        assert len(set(fences)) == 80 and fences == sorted(fences)


def test_tsk_11_tsk_12_cancels_messages_and_ends_race(choices):
    """Whatever comes first, every task ends, nothing is lost, and the counts agree."""
    with durable.open("memory:", events=True) as store:

        @store.handler("node")
        def node(ctx):
            if ctx.payload and not ctx.resumed:
                ctx.submit_children([Submission("node", ctx.payload - 1) for _ in range(3)])
            if any(not child.ended for child in ctx.children()):
                return durable.suspend_until_children()
            with contextlib.suppress(nocter.StateError):
                if ctx.task.parent:
                    ctx.notify_parent("soon")
            return sum(child.result or 0 for child in ctx.children() if child.status == Status.COMPLETED) + 1

        with store.serve(3):
            roots = [store.submit("node", 3) for _ in range(6)]
            for root in roots[:3]:
                victims = store.list(root=root, limit=1 + choices.randrange(30))
                with contextlib.suppress(nocter.StateError):
                    store.cancel(choices.choice(victims).id)
            ended = [store.wait(root, timeout=50) for root in roots]
        assert [record.value() for record in ended[3:]] == [40] * 3
        now = store.count()
        assert now.queued + now.running + now.suspended + now.repairs == 0
        told = [event for event in store.events(follow=False) if event.kind == durable.EventKind.ENDED]
        assert len(told) == len({event.task for event in told}) == now.completed + now.cancelled + now.failed


def test_bnd_03_nothing_is_left_behind(tmp_path):
    """Neither objects of Python's nor memory of the library's grow with what went through a store."""
    with durable.open("memory:") as store:

        def one_round(number):
            id = store.submit("work", {"text": "x" * 1000})
            (run,) = store.claim(timeout=0)
            run.state = {"number": number}
            run.step("s", lambda: "y" * 1000)
            run.done("z" * 1000)
            with store.lock("name", timeout=0):
                store.shared("scope").put("k", number)
            store.wait(id).value()
            store.list()
            store.purge()
            return weakref.ref(run)

        for number in range(300):
            one_round(number)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        gone = [one_round(number) for number in range(1500)]
        if "asan" not in os.environ.get("LD_PRELOAD", ""):  # which keeps what was freed for a while
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
        assert not [left for left in gone if left() is not None]
    closed = weakref.ref(store)
    del store
    gc.collect()
    assert closed() is None


def test_bnd_03_a_loop_that_ends_while_it_serves_hands_back(tmp_path):
    begun = []

    async def main(store):
        @store.handler("endless")
        async def endless(ctx):
            begun.append(ctx.id)
            await asyncio.sleep(100)

        store.serve(5)
        ids = [store.submit("endless") for _ in range(3)]
        while len(begun) < 3:
            await asyncio.sleep(0.01)
        return ids

    with durable.open(f"sqlite:{tmp_path}/work.db") as store:
        ids = asyncio.run(main(store))
    with durable.open(f"sqlite:{tmp_path}/work.db") as again:
        assert {again.get(id).status for id in ids} == {Status.QUEUED}
        assert [again.get(id).failure for id in ids] == [None] * 3


def test_tsk_14_what_is_dropped_while_the_store_closes_costs_no_try(tmp_path):
    for attempt in range(15):
        url = f"sqlite:{tmp_path}/work{attempt}.db"
        store, barrier = durable.open(url, normal_sync=True), threading.Barrier(3)
        ids = [store.submit("work") for _ in range(20)]
        runs = store.claim(maximum=20, timeout=0)

        def leave(mine, barrier=barrier):
            barrier.wait()
            for run in mine:
                with run, contextlib.suppress(nocter.Closed):
                    run.hand_back()

        threads = [threading.Thread(target=leave, args=(runs[part::2],)) for part in range(2)]
        for thread in threads:
            thread.start()
        barrier.wait()
        store.close()
        for thread in threads:
            thread.join()
        with durable.open(url) as again:
            left = [again.get(id) for id in ids]
        assert {(record.status, record.attempt, record.rescues) for record in left} == {(Status.QUEUED, 0, 0)}
