"""The keyed queue from Python: keys, passes, serving threads, sources of a resync, misuse, leaks."""

import gc
import logging
import math
import select
import threading
import time
import weakref

import pytest

import nocter
from nocter import Notified
from nocter._ffi import ffi
from nocter._native import lib


def check_identities(queue):
    """The sums that hold at every moment."""
    now = queue.count()
    assert now.started == now.completed + now.failed + now.active
    kept = now.accepted_new + now.requeued + now.retried
    assert kept == now.started + now.waiting + now.delayed + now.discarded_waiting
    assert now.marked_dirty == now.requeued + now.dirty + now.discarded_dirty
    assert now.retained == now.waiting + now.delayed + now.active
    return now


def one_pass(queue):
    made = queue.claim(timeout=10)
    made.complete()
    return made.key


def test_key_03_k_4_notifications_coalesce_and_a_dirty_key_goes_to_the_tail():
    queue = nocter.Keyed(4, 1)
    assert [queue.notify("a"), queue.notify(b"a"), queue.notify("b")] == [
        Notified.ACCEPTED,
        Notified.COALESCED,
        Notified.ACCEPTED,
    ]
    with queue.claim() as made:
        assert (made.key, made.failures, made.interrupted) == (b"a", 0, False)
        with pytest.raises(nocter.Empty):
            queue.claim(timeout=0)
        with pytest.raises(nocter.Timeout):
            queue.claim(timeout=0.01)
        assert [queue.notify("a"), queue.notify("a")] == [Notified.ACCEPTED, Notified.COALESCED]
        assert repr(made) == "<nocter.Pass of b'a', 0 failures>"
        made.complete()
    assert made.closed and made.key == b"a"
    with pytest.raises(ValueError, match="closed"):
        made.complete()
    assert [one_pass(queue), one_pass(queue)] == [b"b", b"a"]
    queue.notify("grün \N{SNOWMAN}")
    queue.notify(b"\0\xff")
    queue.notify("")
    assert [one_pass(queue) for _ in range(3)] == ["grün \N{SNOWMAN}".encode(), b"\0\xff", b""]
    assert check_identities(queue).retained == 0


def test_key_05_k_5_k_6_a_full_queue_refuses_new_keys_only():
    queue = nocter.Keyed(2, 1)
    each = queue.notify_many(["a", b"b", "c", "a"])
    assert each == [Notified.ACCEPTED, Notified.ACCEPTED, Notified.SATURATED, Notified.COALESCED]
    with pytest.raises(nocter.Saturated) as caught:
        queue.notify("c")
    assert caught.value.status == lib.NOCTER_SATURATED and queue.notify_many([]) == []
    for call in (lambda: queue.notify("x" * 257), lambda: queue.notify_many(["a", "x" * 257])):
        with pytest.raises(nocter.LimitError):
            call()
    now = check_identities(queue)
    assert (now.retained, now.rejected_full, now.coalesced) == (2, 2, 1)
    queue.shutdown()
    assert queue.notify_many(["a"]) == [Notified.CLOSED]
    with pytest.raises(nocter.Closed):
        queue.notify("a")


def test_key_06_k_8_k_9_passes_fail_and_are_retried_when_asked():
    queue = nocter.Keyed(4, 2, backoff_initial=0.001, backoff_maximum=0.002, backoff_jitter_percent=0)
    queue.notify("left")
    with queue.claim():
        pass
    queue.notify("forgotten")
    queue.claim()
    gc.collect()
    queue.notify("raised")
    with pytest.raises(ZeroDivisionError):
        with queue.claim() as made:
            made.retry_after(1 // 0)
    queue.notify("failed")
    queue.claim().fail()
    now = check_identities(queue)
    assert (now.failed, now.retained, now.retried) == (4, 0, 0) and queue.next_due() is None
    assert queue.notify_after("later", 3600) is Notified.ACCEPTED
    assert 3590 < queue.next_due() - time.monotonic() <= 3600
    queue.notify_after("soon", 0)
    for failures in range(6):
        made = queue.claim(timeout=10)
        assert (made.key, made.failures) == (b"soon", failures)
        made.retry_after([None, 0.001, -1][failures % 3])
    assert one_pass(queue) == b"soon"
    assert queue.notify("later") is Notified.COALESCED  # one pass serves both, and is due at once
    assert one_pass(queue) == b"later"
    queue.notify_after("in an age", math.inf)
    assert check_identities(queue).delayed == 1


def test_key_08_k_14_a_shutdown_discards_and_interrupts():
    queue, signal = nocter.Keyed(4, 2), nocter.Signal()
    with pytest.raises(nocter.StateError):
        queue.drained(timeout=0)
    queue.notify_many(["a", "b", "c"])
    made = queue.claim()
    interrupt = made.interrupt
    assert not made.interrupted and not interrupt.raised
    threading.Timer(0.05, queue.shutdown).start()
    with pytest.raises(nocter.Interrupted):
        signal.wait(signal.version, timeout=10, interrupt=interrupt)
    assert made.interrupted
    with pytest.raises(nocter.Pending):
        queue.drained(timeout=0)
    made.retry_after(1)
    assert interrupt.closed
    queue.drained()
    with pytest.raises(nocter.Closed):
        queue.claim()
    assert check_identities(queue).discarded_waiting == 2


def test_key_08_a_shutdown_may_drain_and_still_discard():
    queue = nocter.Keyed(4, 1)
    queue.notify("a")
    queue.notify_after("b", 3600)
    queue.notify_after("c", 3600)
    queue.shutdown(drain=True)
    assert [one_pass(queue), one_pass(queue)] == [b"a", b"b"]
    queue.shutdown()
    queue.drained(timeout=0)
    assert check_identities(queue).discarded_waiting == 1


def test_key_01_key_06_serving_threads_make_passes(caplog):
    seen = []

    def make(made):
        seen.append((made.key, threading.current_thread().name))
        if made.key == b"raises":
            raise KeyError("in a pass")
        if made.key == b"exits":
            raise SystemExit
        if made.key == b"fails":
            made.fail()
        if made.key == b"again" and made.failures < 2:
            made.retry_after(0.001)

    with nocter.Keyed(16, 2) as queue, queue.serve(make, name="passes") as workers:
        queue.notify_many(["raises", "exits", "fails", "again", "well"])
        while queue.count().retained:
            time.sleep(0.001)
        now = check_identities(queue)
        assert (now.completed, now.failed, now.retried) == (2, 5, 2)
        queue.notify("drained")
        queue.shutdown(drain=True)
        queue.drained(timeout=10)
        workers.stop(timeout=10)
        assert workers.alive == 0
    assert {name for _, name in seen} <= {"passes_0", "passes_1"} and seen[-1][0] == b"drained"
    assert "in a pass" in caplog.text and "b'raises'" in caplog.text


def test_key_02_no_key_has_two_passes_at_once(choices):
    running, wrong, made_of = set(), [], []

    def make(made):
        if made.key in running:
            wrong.append(made.key)
        running.add(made.key)
        made_of.append(made.key)
        time.sleep(0)
        running.discard(made.key)
        if len(made_of) % 7 == 0:
            made.retry_after(0.0001)

    with nocter.Keyed(8, 3) as queue, queue.serve(make):

        def notify(seed):
            for number in range(800):
                queue.notify(bytes([(seed * 7 + number * 5) % 8]))

        threads = [threading.Thread(target=notify, args=(choices.randrange(100),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        queue.shutdown(drain=True)
        queue.drained(timeout=20)
        now = check_identities(queue)
    assert not wrong and now.accepted_new + now.coalesced + now.marked_dirty == 2400 and now.started == len(made_of)


def test_key_10_resync_finds_what_was_refused():
    queue = nocter.Keyed(2, 2)
    queue.notify_many("abcde")
    with pytest.raises(nocter.ArgumentError):
        queue.resync(list, 0, 1)
    rounds = []

    def keys():
        rounds.append(threading.current_thread())
        yield from ["a", b"b", "c", "d", "e"]

    queue.resync(keys, 0.001, 2)
    seen = set()
    while seen != {b"a", b"b", b"c", b"d", b"e"}:
        seen.add(one_pass(queue))
    assert set(rounds) == {threading.current_thread()}  # the one that claims
    assert queue.next_due() is not None and queue.count().resync_keys >= 5
    queue.resync(lambda: ["other"], 0.001, 1)
    while one_pass(queue) != b"other":
        pass
    queue.end_resync()
    while queue.count().retained:
        one_pass(queue)
    assert queue.next_due() is None


def test_key_10_an_exception_in_a_source_ends_the_slice_and_is_raised_by_the_claim(wait_for):
    queue, asked = nocter.Keyed(8, 1), []

    def keys():
        asked.append(len(asked))
        yield "before"
        if len(asked) < 3:
            raise ZeroDivisionError(len(asked))
        yield 17

    queue.resync(keys, 0.001, 100)
    made = queue.claim(timeout=10)
    assert made.key == b"before"  # what was claimed is not lost for it
    with pytest.raises(ZeroDivisionError, match="1"):
        queue.claim(timeout=0)
    started = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="2"):
        queue.claim(timeout=20)  # one pass runs, so it waits; until the source raises
    assert time.monotonic() - started < 0.9
    made.complete()
    problem = None
    while problem is None:
        try:
            one_pass(queue)
        except TypeError as raised:
            problem = raised
    assert "17" in str(problem) and check_identities(queue).resync_failures >= 3
    queue.end_resync()


def test_key_10_an_exception_in_a_source_is_logged_by_threads_that_serve(caplog, wait_for):
    asked = []

    def keys():
        asked.append(1)
        yield f"key {len(asked)}"
        raise LookupError("nothing to be found")

    with nocter.Keyed(8, 1) as queue, queue.serve(lambda made: None):
        queue.resync(keys, 0.001, 10)
        wait_for(lambda: queue.count().completed > 3)
        wait_for(lambda: "nothing to be found" in caplog.text)


def test_key_10_a_source_may_look_at_its_own_queue_and_no_more():
    queue = nocter.Keyed(8, 1)

    def keys():
        yield str(queue.count().accepting)
        queue.notify("by the source")

    queue.resync(keys, 0.001, 2)
    made = queue.claim(timeout=10)
    assert made.key == b"1"
    made.complete()
    with pytest.raises(nocter.ReentrantError):
        queue.claim(timeout=10)


def test_gen_07_close_ends_a_claim_and_an_interrupt_too():
    for end in (nocter.Keyed.close, nocter.Keyed.shutdown, None):
        queue, interrupt, ended = nocter.Keyed(), nocter.Interrupt(), []

        def claim():
            try:
                queue.claim(interrupt=interrupt if end is None else None)
            except nocter.Error as problem:
                ended.append(type(problem))

        thread = threading.Thread(target=claim)
        thread.start()
        time.sleep(0.03)
        interrupt.raise_() if end is None else end(queue)
        thread.join(10)
        assert ended == [nocter.Interrupted if end is None else nocter.Closed]


def test_gen_01_passes_outlive_their_queue():
    queue = nocter.Keyed()
    queue.notify("a")
    made = queue.claim()
    queue.close()
    del queue
    gc.collect()
    assert made.interrupted and made.key == b"a"
    made.complete()


def test_blk_14_key_a_queue_tells_an_event_loop():
    eventfd = nocter.EventFd()
    queue = nocter.Keyed(work=eventfd)
    with pytest.raises(nocter.Empty):
        queue.claim(timeout=0)
    eventfd.clear()
    queue.notify("a")
    assert select.select([eventfd], [], [], 5)[0]
    assert one_pass(queue) == b"a"


MISUSE = [
    (nocter.ArgumentError, lambda: nocter.Keyed(0)),
    (nocter.ArgumentError, lambda: nocter.Keyed(workers=0)),
    (nocter.ArgumentError, lambda: nocter.Keyed(4, 5)),
    (nocter.ArgumentError, lambda: nocter.Keyed(maximum_key_size=0)),
    (nocter.ArgumentError, lambda: nocter.Keyed(backoff_initial=-1)),
    (nocter.ArgumentError, lambda: nocter.Keyed(backoff_maximum=0.001)),
    (nocter.ArgumentError, lambda: nocter.Keyed(backoff_percent=99)),
    (nocter.ArgumentError, lambda: nocter.Keyed(backoff_jitter_percent=101)),
    (nocter.ArgumentError, lambda: nocter.Keyed().notify_after("a", -1)),
    (nocter.ArgumentError, lambda: nocter.Keyed().resync(list, 1, 0)),
    (ValueError, lambda: nocter.Keyed(2**32)),
    (ValueError, lambda: nocter.Keyed(wait_spins=-1)),
    (ValueError, lambda: nocter.Keyed().notify_after("a", math.nan)),
    (TypeError, lambda: nocter.Keyed().notify(17)),
    (TypeError, lambda: nocter.Keyed().notify(None)),
    (TypeError, lambda: nocter.Keyed().notify_many(["a", 17])),
    (TypeError, lambda: nocter.Keyed(waiters=5)),
    (TypeError, lambda: nocter.Keyed().claim(interrupt=17)),
    (ValueError, lambda: nocter.Keyed().claim(timeout=math.nan)),
    (UnicodeEncodeError, lambda: nocter.Keyed().notify("\ud800")),
]


@pytest.mark.parametrize("number", range(len(MISUSE)))
def test_gen_06_misuse_is_told(number):
    kind, call = MISUSE[number]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value)


def test_bnd_03_counts_have_every_field_of_the_header():
    theirs = [name for name, _ in ffi.typeof("nocter_keyed_counts").fields]
    assert [name for name in theirs if name not in ("size", "reserved")] == list(
        nocter.KeyedCounts.__dataclass_fields__
    )


def test_bnd_03_no_reference_is_leaked(choices):
    """Sources, exceptions of sources and notifiers go with their queue, or when they are replaced."""

    class Keys:
        def __init__(self, raises):
            self.raises = raises

        def __call__(self):
            yield "a"
            if self.raises:
                raise ValueError(self)

    watched = weakref.WeakSet()
    for _ in range(60):
        queue = nocter.Keyed(4, 2, waiters=nocter.EventFd())
        for _ in range(choices.randrange(1, 5)):
            keys = Keys(choices.randrange(2))
            watched.add(keys)
            queue.resync(keys, 0.0001, 3)
            for _ in range(4):
                try:
                    made = queue.claim(timeout=0.01)
                    made.fail() if choices.randrange(2) else made.complete()
                except (nocter.Timeout, ValueError):
                    pass
        if choices.randrange(2):
            queue.close()
        keys = queue = made = None
    gc.collect()
    assert len(watched) == 0
