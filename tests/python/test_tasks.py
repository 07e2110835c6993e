"""Durable tasks from Python, round by round: what a handler says, what a reader sees, what is refused."""

import asyncio
import threading
import uuid
from datetime import datetime, timedelta, timezone

import pytest

import nocter
from nocter import tasks as durable
from nocter.tasks import EventKind, KeyScope, Status, Submission, Wake
from nocter.testing import nocter_clock, work_off  # noqa: F401, a fixture


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path, nocter_clock):
    url = "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/work.db"
    with durable.open(url, clock=nocter_clock, events=True, node="here") as opened:
        yield opened


def one_run(store, *types):
    (run,) = store.claim(list(types) or None, timeout=0)
    return run


def test_tsk_01_tsk_25_a_task_is_submitted_run_and_completed(store, nocter_clock):
    id = store.submit("greet", {"name": "Grün \N{SNOWMAN}", "numbers": [1, 2.5, None, True]})
    assert isinstance(id, uuid.UUID) and id.version == 7
    queued = store.get(id)
    assert (queued.status, queued.id, queued.root, queued.parent) == (Status.QUEUED, id, id, None)
    assert queued.payload == {"name": "Grün \N{SNOWMAN}", "numbers": [1, 2.5, None, True]}
    assert queued.created_at == nocter_clock.now == datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert (queued.started_at, queued.ended_at, queued.ended, queued.state) == (None, None, False, None)
    with pytest.raises(nocter.Pending):
        store.wait(id, timeout=0)
    with one_run(store, "greet") as run:
        assert (run.id, run.payload, run.resumed, run.woken_by) == (id, queued.payload, False, Wake.FIRST)
        assert (run.messages, run.cancelled, run.interrupted, run.task.attempt) == ([], False, False, 1)
        assert repr(run) == f"<nocter.Run of greet {id}, try 1>"
        assert (store.get(id).status, store.get(id).node) == (Status.RUNNING, "here")
        run.state = {"half": True}
        assert run.state == store.get(id).state == {"half": True}
        run.done(["Hello", None])
    assert run.closed
    with pytest.raises(ValueError, match="closed"):
        run.done()
    done = store.wait(id, timeout=0)
    assert (done.status, done.value(), done.ended) == (Status.COMPLETED, ["Hello", None], True)
    assert store.count().completed == 1
    with pytest.raises(nocter.UnknownIdentity):
        store.get(uuid.uuid4())
    assert str(id) in repr(store.get(str(id)))


def test_tsk_04_tsk_05_a_parent_waits_for_its_children_and_sums_them_up(store):
    @store.handler("sum")
    def sum_up(ctx):
        if not ctx.resumed:
            for number in ctx.payload:
                ctx.submit_child("square", number)
            return store.suspend_until_children()
        assert ctx.woken_by == Wake.JOIN
        return sum(child.result for child in ctx.children())

    @store.handler("square")
    def square(ctx):
        assert ctx.task.parent == id and ctx.task.priority == 1
        return ctx.payload**2

    id = store.submit("sum", [1, 2, 3])
    assert work_off(store) == 5
    assert store.wait(id).value() == 14
    assert [child.result for child in store.children(id)] == [1, 4, 9]
    assert sorted(record.type for record in store.each(limit=2)) == ["square"] * 3 + ["sum"]
    assert [record.id for record in store.list(roots_only=True)] == [id]
    assert len(store.list(type="square", status=Status.COMPLETED, parent=id, root=id)) == 3


def test_tsk_06_t_13_joins_on_named_tasks_all_any_and_on_failure(store):
    handlers = {
        "wait": lambda ctx: ctx.woken_by.name if ctx.resumed else durable.suspend_until(**ctx.payload),
        "good": lambda ctx: None,
        "bad": fail_for_good,
    }
    good, bad = store.submit("good", priority=-2), store.submit("bad", priority=-1)
    every = store.submit("wait", {"ids": [good, str(bad)]})
    first = store.submit("wait", {"ids": [good, bad], "need": 1})
    watch = store.submit("wait", {"ids": [good, bad], "on_failure": True})
    work_off(store, handlers)
    assert [store.wait(id).value() for id in (every, first, watch)] == ["JOIN", "JOIN", "FAILURE"]
    ended = store.submit("wait", {"ids": [good]})
    assert work_off(store, handlers) == 2 and store.wait(ended).value() == "JOIN"
    unknown = store.submit("wait", {"ids": [uuid.uuid4()]})
    work_off(store, handlers)
    assert store.get(unknown).failure.kind == "UnknownIdentity"


def fail_for_good(ctx):
    raise durable.Fail("Broken", "for good", "a trace", retry=durable.Retry.NEVER)


def test_tsk_07_tsk_08_tsk_09_messages_wake_and_are_handed_to_one_round(store):
    @store.handler("listen")
    def listen(ctx):
        heard = [*(ctx.state or []), *[(message.payload, message.deliveries) for message in ctx.messages]]
        ctx.state = heard
        if len(heard) < 3:
            return durable.suspend_until_notified()
        return {"heard": heard, "sender": str(ctx.messages[-1].sender)}

    id = store.submit("listen")
    store.notify(id, "early")
    store.notify(id)
    assert work_off(store) == 1
    assert (store.get(id).status, store.get(id).until) == (Status.SUSPENDED, durable.Until.NOTIFIED)
    child = store.submit("say", "third", parent=id)
    assert work_off(store, {"say": lambda ctx: ctx.notify_parent(ctx.payload), **store.handlers}) == 2
    assert store.wait(id).value() == {"heard": [["early", 1], [{}, 1], ["third", 1]], "sender": str(child)}
    with pytest.raises(nocter.StateError):
        store.notify(id, "late")


def test_tsk_13_delayed_tasks_wait_for_their_time(store, nocter_clock):
    later = store.submit("work", 1, run_after=timedelta(hours=1))
    latest = store.submit("work", 2, run_after=nocter_clock.now + timedelta(days=1))
    handlers = {"work": lambda ctx: ctx.payload}
    assert work_off(store, handlers) == 0
    assert store.get(later).due_at == nocter_clock.now + timedelta(hours=1)
    nocter_clock.advance(timedelta(hours=1))
    assert work_off(store, handlers) == 1
    assert store.retry(latest) == latest
    assert work_off(store, handlers) == 1
    with pytest.raises(ValueError, match="time zone"):
        store.submit("work", run_after=datetime(2030, 1, 1))
    asleep = store.submit("sleep")
    handlers["sleep"] = lambda ctx: ctx.woken_by.name if ctx.resumed else durable.suspend_until_notified(
        wake_at=timedelta(minutes=5)
    )
    assert work_off(store, handlers) == 1
    nocter_clock.advance(300)
    assert work_off(store, handlers) == 1 and store.wait(asleep).value() == "TIMER"


def test_tsk_15_tsk_16_a_failure_is_kept_and_the_try_made_again(store, nocter_clock):
    @store.handler("flaky")
    def flaky(ctx):
        if ctx.task.attempt == 1:
            raise OSError("no luck")
        if ctx.task.attempt == 2:
            raise durable.Fail("Later", "in a minute", retry=timedelta(minutes=1))
        return ctx.woken_by.name

    id = store.submit("flaky", max_attempts=3)
    assert work_off(store) == 1
    failed = store.get(id)
    assert (failed.status, failed.failure.kind, failed.failure.message) == (Status.QUEUED, "OSError", "no luck")
    assert "raise OSError" in failed.failure.detail and failed.failure.node == "here" and failed.failure.attempt == 1
    nocter_clock.advance(0.4)
    assert work_off(store) == 1 and store.get(id).failure.kind == "Later"
    nocter_clock.advance(59)
    assert work_off(store) == 0
    nocter_clock.advance(1)
    assert work_off(store) == 1 and store.wait(id).value() == "RETRY"
    once = store.submit("flaky")
    work_off(store)
    with pytest.raises(durable.TaskFailed, match="OSError: no luck") as failure:
        store.wait(once).value()
    assert failure.value.task.status == Status.FAILED
    assert store.retry(once) != once


def test_tsk_11_cancel_takes_the_tree_along(store):
    root = store.submit("root")
    run = one_run(store)
    child = run.submit_child("child")
    asleep = run.submit_child("child", key="asleep", key_scope=KeyScope.PARENT)
    assert store.cancel(root) == 3
    assert [store.get(id).status for id in (child, asleep)] == [Status.CANCELLED] * 2
    assert run.cancelled and run.interrupted and run.reason == durable.Reason.CANCEL
    with pytest.raises(nocter.Cancelled):
        run.submit_child("child")
    with pytest.raises(nocter.Cancelled):
        run.done("too late")
    assert run.closed and store.get(root).result == "too late"
    with pytest.raises(nocter.Cancelled):
        store.wait(root).value()
    with pytest.raises(nocter.StateError):
        store.cancel(root)


def test_tsk_17_a_late_run_is_refused(tmp_path, nocter_clock):
    with durable.open("memory:", clock=nocter_clock, by_hand=True, lease=10) as store:
        id = store.submit("work", max_attempts=9)
        late = one_run(store)
        nocter_clock.advance(11)
        store.maintain()
        again = one_run(store)
        assert again.fence > late.fence and again.woken_by == Wake.RESCUE
        with pytest.raises(nocter.LeaseLost):
            late.state = "late"
        with pytest.raises(nocter.LeaseLost):
            late.done("late")
        assert late.closed
        again.done("in time")
        assert store.wait(id).value() == "in time" and store.get(id).rescues == 1


def test_tsk_20_tsk_21_keys_and_identities_make_no_second_task(store):
    first = store.submit("work", key="k")
    with pytest.raises(nocter.Exists) as taken:
        store.submit("work", key="k")
    assert taken.value.ids == [first]
    assert store.submit("work", key="k", exist_ok=True) == first
    many = [Submission("work", key="k"), Submission("other", {"n": 1})]
    with pytest.raises(nocter.Exists) as taken:
        store.submit_many(many)
    assert taken.value.ids[0] == first and store.get(taken.value.ids[1]).payload == {"n": 1}
    id = durable.new_id()
    assert store.submit("same", 1, id=id) == store.submit("same", 1, id=id) == id
    with pytest.raises(nocter.StateError):
        store.submit("same", 2, id=id)
    root, leaf = durable.new_id(), durable.new_id()
    assert store.submit_many([Submission("a", id=root), Submission("b", parent=root, id=leaf)]) == [root, leaf]
    assert store.submit_many([]) == []


def test_tsk_22_n_08_steps_are_made_once(store, nocter_clock):
    made = []

    @store.handler("work")
    def work(ctx):
        token = ctx.step("token", lambda: made.append(1) or {"n": len(made)})
        if ctx.task.attempt == 1:
            raise RuntimeError("after the step")
        return token

    id = store.submit("work", max_attempts=2)
    work_off(store)
    nocter_clock.advance(1)
    work_off(store)
    assert store.wait(id).value() == {"n": 1} and made == [1]


def test_tsk_24_tsk_30_what_is_no_json_or_too_long_is_refused(nocter_clock):
    with durable.open("memory:", maximum_json=100, maximum_message=50, maximum_mailbox=1) as store:
        for bad in (durable.Raw("{"), durable.Raw("nul"), "\0", "\ud800", durable.Raw('"\\ud800"')):
            with pytest.raises(nocter.JsonError):
                store.submit("work", bad)
        with pytest.raises(ValueError, match="JSON"):
            store.submit("work", float("nan"))
        with pytest.raises(TypeError, match="no JSON"):
            store.submit("work", object())
        with pytest.raises(nocter.LimitError):
            store.submit("work", "x" * 100)
        with pytest.raises(nocter.ArgumentError):
            store.submit("")
        assert store.list() == []
        kept = store.submit("work", durable.Raw('{ "a": 1.0,\n"a": 10000000000000000000000 }'))
        assert store.get(kept).payload_json == '{ "a": 1.0,\n"a": 10000000000000000000000 }'
        store.notify(kept)
        with pytest.raises(nocter.LimitError):
            store.notify(kept)
        run = one_run(store)
        with pytest.raises(nocter.LimitError):
            run.done("x" * 100)
        assert not run.closed
        run.done()
        assert store.get(kept).result_json == "null"
    with pytest.raises(TypeError, match="no option"):
        durable.open("memory:", leese=1)
    with pytest.raises(nocter.ArgumentError):
        durable.open("file:work.db")


def test_tsk_23_purge_and_retention(store, nocter_clock):
    id = store.submit("work")
    store.shared(id).put("k", 1)
    work_off(store, {"work": lambda ctx: None})
    assert store.purge(timedelta(hours=1)) == 0
    nocter_clock.advance(timedelta(hours=2))
    assert store.purge(timedelta(hours=1)) == 1
    assert store.shared(id).all() == {} and store.count().purged == 1
    with pytest.raises(nocter.UnknownIdentity):
        store.get(id)


def test_tsk_31_an_atomic_round_commits_as_one(store):
    id = store.submit("work")
    run = one_run(store)
    run.atomic()
    child = run.submit_child("child")
    run.state, _ = "staged", run.shared.put("k", "staged")
    assert [record.id for record in run.children()] == [child] and run.shared.get("k") == "staged"
    assert store.get(id).state is None and store.children(id) == [] and store.shared(id).get("k") is None
    run.suspend(durable.suspend_until_children())
    assert store.get(id).state == "staged" and store.shared(id).get("k") == "staged"
    parked = store.get(id)
    assert parked.waiting_for == (child,) and parked.waiting_need == 1 and not parked.wake_on_failure


def test_tsk_29_events_tell_what_happened_in_order(store):
    id = store.submit("work")
    work_off(store, {"work": lambda ctx: setattr(ctx, "state", {"n": 1})})
    events = list(store.events(follow=False))
    assert [event.kind for event in events] == [
        EventKind.SUBMITTED,
        EventKind.STARTED,
        EventKind.STATE,
        EventKind.ENDED,
    ]
    assert [event.sequence for event in events] == [1, 2, 3, 4] and {event.task for event in events} == {id}
    assert events[2].data == {"n": 1} and events[3].status == Status.COMPLETED
    assert [event.sequence for event in store.events(after=3, follow=False)] == [4]
    reader = store.events(after=4)
    told = []
    thread = threading.Thread(target=lambda: told.extend(reader.read()))
    thread.start()
    store.submit("more")
    thread.join()
    assert [event.type for event in told] == ["more"]


def test_shr_01_shr_02_shared_values(store):
    shared = store.shared("scope")
    assert shared.put_if_absent("k", {"n": 1}) == (True, {"n": 1})
    assert shared.put_if_absent("k", 2) == (False, {"n": 1})
    shared.put("k", 3)
    shared.put("l", None)
    assert shared.all() == {"k": 3, "l": None} and shared.get("m", "none") == "none"
    shared.clear()
    assert shared.all() == {} and store.shared("other").get("k") is None
    id = store.submit("work")
    run = one_run(store)
    assert run.shared.put_if_absent("k", 1) == (True, 1) and run.shared.put_if_absent("k", 2) == (False, 1)
    assert store.shared(id).get("k") == run.shared.get("k") == 1
    run.hand_back()
    assert (store.get(id).status, store.get(id).attempt) == (Status.QUEUED, 0)


def test_shr_03_shr_04_locks_are_leased_and_fenced(store, nocter_clock):
    with store.lock("report", lease=30, timeout=0) as first:
        fence = first.fence
        with pytest.raises(nocter.Held), store.lock("report", timeout=0):
            pass
        first.renew(60)
    assert first.closed
    late = store.lock("report", lease=30, timeout=0).acquire()
    nocter_clock.advance(31)
    with store.lock("report", timeout=0) as second:
        assert second.fence > late.fence > fence
        with pytest.raises(nocter.LeaseLost):
            late.renew()
        with pytest.raises(nocter.LeaseLost):
            late.release()
        with pytest.raises(ValueError, match="held already"):
            second.acquire()


def test_bnd_03_a_handler_may_end_its_run_itself_or_hand_back(store):
    id = store.submit("work")
    assert work_off(store, {"work": lambda ctx: ctx.done("by hand")}) == 1
    assert store.wait(id).value() == "by hand"
    rounds = []
    other = store.submit("back")
    back = {"back": lambda ctx: durable.hand_back() if len(rounds) < 2 and not rounds.append(1) else "kept"}
    assert work_off(store, back) == 3
    assert store.get(other).value() == "kept" and store.get(other).attempt == 1
    bad = store.submit("bad")
    work_off(store, {"bad": lambda ctx: object()})
    assert store.get(bad).failure.kind == "TypeError"

    async def later(ctx):
        await asyncio.sleep(0)
        return await ctx.astep("a", lambda: asyncio.sleep(0, "remembered"))

    waited = store.submit("later")
    work_off(store, {"later": later})
    assert store.wait(waited).value() == "remembered"


def test_bnd_03_a_dropped_run_is_a_failed_try(store):
    id = store.submit("work")
    run = one_run(store)
    del run
    assert (store.get(id).status, store.get(id).failure.kind) == (Status.FAILED, "WorkerLost")


def test_bnd_03_a_closed_store_says_so(tmp_path):
    store = durable.open(f"sqlite:{tmp_path}/work.db")
    id = store.submit("work", {"kept": True})
    run = one_run(store)
    assert "1 running" in repr(store)
    store.close()
    store.close()
    with pytest.raises(ValueError, match="closed"):
        store.get(id)
    with pytest.raises((nocter.Closed, nocter.LeaseLost)):
        run.done()
    run.close()
    with durable.open(f"sqlite:{tmp_path}/work.db") as again:
        record = again.get(id)
        assert (record.status, record.payload, record.attempt) == (Status.QUEUED, {"kept": True}, 0)


def test_dur_08_a_store_that_is_checked_when_it_is_opened_says_what_is_damaged(tmp_path):
    path = tmp_path / "tasks.db"
    with durable.open(f"sqlite:{path}", checked=True) as store:
        id = store.submit("work", "x" * 200_000)
    with durable.open(f"sqlite:{path}", checked=True) as store:
        assert store.get(id).payload == "x" * 200_000
    pages = path.stat().st_size // 4096
    with open(path, "r+b") as file:  # behind the head of the long payload
        for page in range(pages - 10, pages - 5):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with pytest.raises(nocter.StoreError, match="damaged"):
        durable.open(f"sqlite:{path}", checked=True)
    durable.open(f"sqlite:{path}").close()
