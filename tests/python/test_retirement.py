"""Retirement from Python: owners, cleanups by hand and by serving threads, misuse, what nobody cleans, leaks."""

import gc
import logging
import threading
import time
import weakref

import pytest

import nocter
from nocter import RetirementState
from nocter._ffi import ffi
from nocter._native import lib


class Thing:
    """Something whose end can be watched."""


def held(service):
    """How many objects the service keeps."""
    return len(service._store.values)


def check_identities(service):
    """The sums that hold at every moment."""
    now = service.count()
    freed = now.permits_dropped + now.unobserved_done + now.detached_done + now.taken + now.detached_completed
    assert now.reservations == freed + now.reserved and now.epoch == freed
    assert now.reserved == now.permits + now.live + now.queued + now.running + now.completed
    return now


def clean_one(service, code=0):
    """Ends one resource by hand and returns it."""
    with service.claim(timeout=10) as cleanup:
        value = cleanup.begin()
        cleanup.complete(code)
    return value


def test_ret_06_a_resource_goes_its_whole_way():
    service, thing = nocter.Retirement(), Thing()
    with service.reserve() as permit:
        owner = permit.attach(thing)
    assert permit.closed and owner.value is thing and repr(thing) in repr(owner)
    retirement = owner.retire()
    assert owner.closed and service.query(retirement) is RetirementState.QUEUED
    with pytest.raises(ValueError, match="closed"):
        owner.value
    with pytest.raises(ValueError, match="closed"):
        owner.retire()
    with pytest.raises(nocter.Pending):
        service.take(retirement, timeout=0)
    with pytest.raises(nocter.Timeout):
        service.take(retirement, timeout=0.01)
    cleanup = service.claim()
    assert service.query(retirement) is RetirementState.RUNNING
    with pytest.raises(nocter.StateError):
        cleanup.complete()
    assert cleanup.begin() is thing
    with pytest.raises(nocter.StateError):
        cleanup.begin()
    with pytest.raises(ValueError, match="32 bits"):
        cleanup.complete(2**31)
    cleanup.complete(-5)
    assert cleanup.closed and service.query(retirement) is RetirementState.COMPLETED
    assert service.take(retirement) == -5
    with pytest.raises(nocter.UnknownIdentity):
        service.take(retirement)
    now = check_identities(service)
    assert (now.failed, now.taken, now.reserved, held(service)) == (1, 1, 0, 0)


def test_ret_05_serving_threads_end_resources_and_tell_the_code():
    ends = []

    def end(code):
        ends.append(threading.current_thread().name)
        return code

    with nocter.Retirement(8, 2) as service, service.serve(name="ends") as workers:
        retirements = [service.reserve().attach(Thing(), lambda code=code: end(code)).retire() for code in (0, 7, None)]
        assert [service.take(each, timeout=10) for each in retirements] == [0, 7, 0]
        with service.reserve(timeout=10) as permit:
            owner = permit.attach("nothing to be done at its end")
        with owner:
            assert owner.value == "nothing to be done at its end"
        service.drained(timeout=10)
        assert workers.alive == 2 and repr(workers) == "<nocter.Workers 2 of 2 threads at work>"
    assert workers.alive == 0 and set(ends) <= {"ends_0", "ends_1"}


def test_ret_05_r_15_an_exception_at_the_end_is_a_lost_cleanup_and_is_logged(caplog):
    with nocter.Retirement(4, 1) as service, service.serve():
        bad = service.reserve().attach(Thing(), lambda: 1 // 0).retire()
        with caplog.at_level(logging.ERROR, logger="nocter"), pytest.raises(nocter.WorkerLost):
            service.take(bad, timeout=10)
        good = service.reserve().attach(Thing(), lambda: 3).retire()
        assert service.take(good, timeout=10) == 3
        exits = service.reserve().attach(Thing(), lambda: exec("raise SystemExit")).retire()
        with pytest.raises(nocter.WorkerLost):
            service.take(exits, timeout=10)
        assert service.take(service.reserve().attach(1).retire(), timeout=10) == 0
        assert service.count().lost == 2
    assert "ZeroDivisionError" in caplog.text


def test_ret_05_cleanups_that_are_left_have_failed(caplog):
    service, ends = nocter.Retirement(8, 1), []
    observed = service.reserve().attach(1, lambda: ends.append(1)).retire()
    with service.claim():
        assert ends == []
    assert ends == [1]  # nobody had begun
    with pytest.raises(nocter.WorkerLost):
        service.take(observed)
    service.reserve().attach(2, lambda: ends.append(2)).close()
    with service.claim() as cleanup:
        assert cleanup.begin() == 2
    service.reserve().attach(3, lambda: ends.append(3)).close()
    with pytest.raises(ZeroDivisionError):
        with service.claim() as cleanup:
            cleanup.complete(cleanup.begin() // 0)
    service.reserve().attach(4, lambda: 1 // 0).close()
    service.claim()  # forgotten at once, and its end fails
    gc.collect()
    assert "ZeroDivisionError" in caplog.text
    service.reserve().attach(5, lambda: 9).close()
    service.claim().run()
    now = check_identities(service)
    assert (ends, now.lost, now.failed, now.reserved, held(service)) == ([1], 4, 1, 0, 0)


def test_ret_04_saturation_tells_an_epoch_that_loses_no_place():
    service = nocter.Retirement(1, 1)
    permit = service.reserve()
    with pytest.raises(nocter.Saturated) as caught:
        service.reserve()
    epoch = caught.value.epoch
    assert caught.value.status == lib.NOCTER_SATURATED and epoch == service.epoch()
    with pytest.raises(nocter.Pending):
        service.wait_epoch(epoch, timeout=0)
    started = time.monotonic()
    with pytest.raises(nocter.Saturated):
        service.reserve(timeout=0.05)
    assert 0.05 <= time.monotonic() - started < 5
    threading.Timer(0.05, permit.close).start()
    with service.reserve(timeout=10) as second:
        assert service.wait_epoch(epoch, timeout=10) == service.epoch() != epoch
    assert second.closed and service.count().reserved == 0


def test_ret_04_r_26_many_reserve_and_the_bound_is_one():
    service, ended = nocter.Retirement(1, 1), []

    def use(base):
        for number in range(100):
            service.reserve(timeout=20).attach(base + number, lambda value=base + number: ended.append(value)).close()

    threads = [threading.Thread(target=use, args=(base,)) for base in (0, 1000, 2000)]
    with service.serve():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(40)
        service.drained(timeout=10)
    assert sorted(ended) == sorted(base + number for base in (0, 1000, 2000) for number in range(100))
    assert check_identities(service).unobserved_done == 300 and held(service) == 0


def test_ret_07_detach_and_detach_all():
    service = nocter.Retirement(8, 2)
    queued, running, completed = [service.reserve().attach(number).retire() for number in range(3)]
    service.detach(queued)
    with pytest.raises(nocter.UnknownIdentity):
        service.detach(queued)
    assert clean_one(service) == 0
    cleanup = service.claim()
    service.detach(running)
    assert clean_one(service, 4) == 2
    assert service.query(completed) is RetirementState.COMPLETED
    service.detach_all()
    with pytest.raises(nocter.UnknownIdentity):
        service.query(completed)
    cleanup.begin()
    cleanup.complete()
    now = check_identities(service)
    assert (now.detached_done, now.detached_completed, now.failed_unobserved, now.reserved) == (2, 1, 1, 0)


def test_ret_08_r_3_r_4_shutdown_leaves_what_was_reserved():
    service = nocter.Retirement(4, 1)
    permit, live = service.reserve(), service.reserve().attach("live")
    service.shutdown()
    service.shutdown()
    with pytest.raises(nocter.Closed):
        service.reserve()
    late = permit.attach("late")
    live.close()
    late.close()
    with pytest.raises(nocter.Pending):
        service.drained(timeout=0)
    assert [clean_one(service), clean_one(service)] == ["live", "late"]
    service.drained()
    with pytest.raises(nocter.Closed):
        service.claim()


def test_ret_03_r_6_threads_that_serve_outlive_their_service():
    ended = []
    service = nocter.Retirement(4, 1)
    workers = service.serve()
    owner, permit = service.reserve().attach(1, lambda: ended.append(1)), service.reserve()
    service.close()
    del service
    gc.collect()
    assert workers.alive == 1
    owner.close()
    late = permit.attach(2, lambda: ended.append(threading.current_thread()))
    late.close()
    for thread in workers._threads:
        thread.join(10)
    assert workers.alive == 0 and ended[0] == 1 and ended[1] is workers._threads[0]


def test_ret_03_r_7_what_no_thread_can_clean_is_ended_by_who_lets_go():
    ended = []
    service = nocter.Retirement(4, 1)
    queued, live, failing = [
        service.reserve().attach(number, lambda number=number: ended.append(number)) for number in range(3)
    ]
    permit = service.reserve()
    queued.close()
    assert ended == []
    service.close()
    assert ended == [0]
    live.close()
    assert ended == [0, 1]
    with pytest.raises(nocter.Closed):
        failing.retire()
    assert ended == [0, 1, 2]
    permit.attach(3, lambda: ended.append(3)).close()
    assert ended == [0, 1, 2, 3]


def test_ret_03_r_7_what_stopped_threads_have_left_is_ended_by_the_close():
    ended = []
    with nocter.Retirement(4, 1) as service, service.serve() as workers:
        owner = service.reserve().attach("live", lambda: ended.append("live"))
        workers.stop()
        service.reserve().attach("queued", lambda: ended.append("queued")).close()
        assert ended == []
    assert ended == ["queued"] and workers.alive == 0
    owner.close()
    assert ended == ["queued", "live"]


def test_ret_03_an_owner_that_is_forgotten_is_retired():
    service = nocter.Retirement()
    service.reserve().attach("forgotten")
    gc.collect()
    assert clean_one(service) == "forgotten"


def test_ret_01_a_full_blocking_service_keeps_no_cleanup_from_running():
    with nocter.Blocking(1, 1) as jobs, nocter.Retirement(4, 1) as retirement, retirement.serve():
        jobs.submit("it is full")
        assert retirement.take(retirement.reserve().attach(1, lambda: 5).retire(), timeout=10) == 5


def test_gen_07_stop_waits_and_its_own_threads_may_not():
    service, begun, gate, told = nocter.Retirement(4, 1), threading.Event(), threading.Event(), []

    def end():
        begun.set()
        try:
            workers.stop()
        except nocter.WouldDeadlock as problem:
            told.append(problem)
        gate.wait(20)

    workers = service.serve()
    with service.reserve().attach("slow", end):
        pass
    assert begun.wait(10)
    with pytest.raises(nocter.Timeout):
        workers.stop(timeout=0.1)
    gate.set()
    workers.stop(timeout=10)
    assert len(told) == 1 and service.count().cleaned == 1


MISUSE = [
    (nocter.ArgumentError, lambda: nocter.Retirement(0)),
    (nocter.ArgumentError, lambda: nocter.Retirement(workers=0)),
    (nocter.ArgumentError, lambda: nocter.Retirement(4, 5)),
    (ValueError, lambda: nocter.Retirement(2**32)),
    (TypeError, lambda: nocter.Retirement("many")),
    (TypeError, lambda: nocter.Retirement(waiters=nocter.Interrupt())),
    (TypeError, lambda: nocter.Retirement().take(17)),
    (TypeError, lambda: nocter.Retirement().query(nocter.Retirement().epoch())),
    (TypeError, lambda: nocter.Retirement().detach(nocter.Blocking().submit(1))),
    (TypeError, lambda: nocter.Retirement().wait_epoch(3)),
    (TypeError, lambda: nocter.Retirement().claim(interrupt=17)),
    (ValueError, lambda: nocter.Retirement().claim(timeout=float("nan"))),
    (ValueError, lambda: nocter.Retirement(wait_spins=-1)),
    (TypeError, lambda: nocter.Retirement().serve("many")),
]


@pytest.mark.parametrize("number", range(len(MISUSE)))
def test_gen_06_misuse_is_told(number):
    kind, call = MISUSE[number]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value)


def test_gen_03_r_22_identities_do_not_mix():
    here, there = nocter.Retirement(), nocter.Retirement()
    retirement, other = here.reserve().attach(1).retire(), there.reserve().attach(1).retire()
    assert retirement != other and len({retirement, other, retirement}) == 2 and retirement != here.epoch()
    assert repr(retirement).startswith("<nocter.RetirementId ")
    for call in (there.take, there.query, there.detach):
        with pytest.raises(nocter.ForeignIdentity):
            call(retirement)
    with pytest.raises(nocter.ForeignIdentity):
        there.wait_epoch(here.epoch(), timeout=1)


def test_bnd_03_counts_have_every_field_of_the_header():
    theirs = [name for name, _ in ffi.typeof("nocter_retirement_counts").fields]
    assert [name for name in theirs if name != "size"] == list(nocter.RetirementCounts.__dataclass_fields__)


def test_bnd_03_no_reference_is_leaked(choices):
    """Thousands of resources end in every possible way; each is gone afterwards."""
    watched = weakref.WeakSet()
    service = nocter.Retirement(16, 4)
    permits, owners, cleanups, retirements = [], [], [], []
    for _ in range(6000):
        action = choices.randrange(8)
        if action < 2:
            try:
                permits.append(service.reserve())
            except nocter.Saturated:
                pass
        elif action == 2 and permits:
            permit = permits.pop(choices.randrange(len(permits)))
            if choices.randrange(5):
                thing = Thing()
                watched.add(thing)
                owners.append(permit.attach(thing, thing.__repr__ if choices.randrange(2) else None))
                del thing
        elif action == 3 and owners:
            owner = owners.pop(choices.randrange(len(owners)))
            if choices.randrange(2):
                retirements.append(owner.retire())
        elif action in (4, 5) and len(cleanups) < 4:
            try:
                cleanups.append(service.claim(timeout=0))
            except nocter.Empty:
                pass
        elif action == 6 and cleanups:
            cleanup = cleanups.pop(choices.randrange(len(cleanups)))
            if choices.randrange(3):
                cleanup.begin()
                if choices.randrange(2):
                    cleanup.complete(choices.randrange(2))
            del cleanup
        elif retirements:
            try:
                service.take(retirements[-1], timeout=0)
            except nocter.Pending:
                service.detach(retirements[-1])
            except nocter.WorkerLost:
                pass
            retirements.pop()
        check_identities(service)
    now = service.count()
    assert now.taken and now.lost and now.failed and now.detached_done and now.permits_dropped and now.unobserved_done
    permits.clear(), owners.clear(), cleanups.clear()
    owner = permit = None
    service.detach_all()
    while check_identities(service).reserved:
        clean_one(service)
    store = weakref.ref(service._store)
    service.close()
    del service
    gc.collect()
    assert len(watched) == 0 and store() is None
