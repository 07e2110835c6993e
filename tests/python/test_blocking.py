"""The blocking service from Python: the life of a job, misuse, lost workers, the epoch, hints, event loops, leaks."""

import asyncio
import gc
import select
import threading
import time
import weakref

import pytest

import nocter
from nocter import JobState
from nocter._native import lib


class Thing:
    """Something whose end can be watched."""


def run_one(service, output=None):
    """Claims and completes one job and returns what it was given."""
    value, completion = service.claim(timeout=10).begin()
    completion.complete(output)
    return value


def held(service):
    """How many objects the service keeps."""
    return len(service._store.values)


def check_identities(service):
    """The sums that hold at every moment."""
    now = service.count()
    freed = (
        now.taken + now.cancelled_queued + now.cancelled_completed + now.shutdown_queued + now.shutdown_completed
    ) + now.abandoned_retired
    assert now.accepted == freed + now.admitted and now.epoch == freed
    assert now.admitted == now.queued + now.running + now.completed + now.abandoned
    return now


def test_blk_05_life_of_a_job():
    service, thing, output = nocter.Blocking(), Thing(), Thing()
    job = service.submit(thing)
    assert service.query(job) is JobState.QUEUED
    running = service.claim()
    assert running.id == job and service.query(job) is JobState.RUNNING
    value, completion = running.begin()
    assert value is thing and completion.id == job and not completion.abandoned and running.closed
    with pytest.raises(nocter.Pending):
        service.take(job, timeout=0)
    with pytest.raises(nocter.Timeout):
        service.take(job, timeout=0.01)
    completion.complete(output)
    assert completion.closed and service.query(job) is JobState.COMPLETED
    assert service.take(job) is output
    with pytest.raises(nocter.UnknownIdentity):
        service.take(job)
    now = check_identities(service)
    assert (now.accepted, now.completed_ok, now.taken, now.admitted) == (1, 1, 1, 0)
    assert held(service) == 0


def test_blk_05_oldest_first_and_bounded_workers():
    service = nocter.Blocking(maximum_jobs=8, workers=2)
    for number in range(8):
        service.submit(number)
    first, second = service.claim(), service.claim()
    with pytest.raises(nocter.Empty):
        service.claim(timeout=0)
    with pytest.raises(nocter.Timeout):
        service.claim(timeout=0.01)
    assert service.count().running == 2
    values = []
    for running in (first, second):
        value, completion = running.begin()
        values.append(value)
        completion.complete()
    values += [run_one(service) for _ in range(6)]
    assert values == list(range(8))


def test_gen_03_identities_compare_hash_and_do_not_mix():
    one, other = nocter.Blocking(), nocter.Blocking()
    first, second, foreign = one.submit(1), one.submit(2), other.submit(1)
    running = one.claim()
    assert running.id == first and hash(running.id) == hash(first) and len({first, second, foreign, running.id}) == 3
    assert first != second and first != foreign and first != one.epoch() and first != 1
    assert one.epoch() == one.epoch() and hash(one.epoch()) == hash(one.epoch()) and one.epoch() != other.epoch()
    assert repr(first).startswith("<nocter.JobId ") and repr(one.epoch()).startswith("<nocter.Epoch ")
    for call in (one.take, one.query, one.cancel):
        with pytest.raises(nocter.ForeignIdentity) as caught:
            call(foreign)
        assert caught.value.status == lib.NOCTER_E_FOREIGN
    with pytest.raises(nocter.ForeignIdentity):
        one.wait_epoch(other.epoch(), timeout=1)


def test_blk_03_saturation_keeps_nothing_and_its_epoch_loses_no_slot():
    service, thing = nocter.Blocking(maximum_jobs=1, workers=1), Thing()
    job = service.submit("first")
    with pytest.raises(nocter.Saturated) as caught:
        service.submit(thing)
    epoch = caught.value.epoch
    assert caught.value.status == lib.NOCTER_SATURATED and held(service) == 1
    with pytest.raises(nocter.Pending):
        service.wait_epoch(epoch, timeout=0)
    run_one(service)
    with pytest.raises(nocter.Timeout):
        service.wait_epoch(epoch, timeout=0.01)  # a completed job still holds its place
    service.take(job)
    later = service.wait_epoch(epoch)  # freed before the wait began: it returns at once
    assert later != epoch and later == service.epoch()
    service.submit(thing)
    assert service.count().saturated == 1


def test_blk_03_b_22_many_submitters_and_a_bound_of_one(choices):
    service, done, total = nocter.Blocking(maximum_jobs=1, workers=1), [], 200

    def submitter(base):
        for number in range(total):
            while True:
                try:
                    job = service.submit(base + number)
                    break
                except nocter.Saturated as full:
                    service.wait_epoch(full.epoch, timeout=20)
            done.append(service.take(job, timeout=20))

    def worker():
        try:
            while True:
                value, completion = service.claim().begin()
                completion.complete(value)
        except nocter.Closed:
            pass

    threads = [threading.Thread(target=submitter, args=(base,)) for base in (0, 10_000, 20_000)]
    workers = [threading.Thread(target=worker) for _ in range(2)]
    for thread in threads + workers:
        thread.start()
    for thread in threads:
        thread.join(40)
    service.shutdown()
    for thread in workers:
        thread.join(10)
    assert sorted(done) == sorted(base + number for base in (0, 10_000, 20_000) for number in range(total))
    assert check_identities(service).taken == 3 * total and held(service) == 0


def test_blk_06_leaving_a_guard_loses_the_worker():
    service = nocter.Blocking()
    jobs = [service.submit(number) for number in range(4)]
    with service.claim():
        pass
    with service.claim() as running:
        _, completion = running.begin()
        with completion:
            pass
    service.claim()  # forgotten at once
    _, completion = service.claim().begin()
    del completion
    gc.collect()
    for job in jobs:
        with pytest.raises(nocter.WorkerLost) as caught:
            service.take(job, timeout=5)
        assert caught.value.status == lib.NOCTER_WORKER_LOST
    now = check_identities(service)
    assert (now.completed_lost, now.running, now.admitted, held(service)) == (4, 0, 0, 0)


def test_blk_06_an_exception_in_a_job_loses_the_worker():
    service = nocter.Blocking()
    job = service.submit("value")
    with pytest.raises(ZeroDivisionError):
        _, completion = service.claim().begin()
        with completion:
            completion.complete(1 // 0)
    with pytest.raises(nocter.WorkerLost):
        service.take(job)


def test_blk_06_a_completed_guard_may_be_left():
    service = nocter.Blocking()
    job = service.submit(1)
    with service.claim() as running:
        value, completion = running.begin()
        with completion:
            completion.complete(value + 1)
    assert service.take(job) == 2


def test_blk_09_b_1_cancel_in_every_state():
    service, queued, output = nocter.Blocking(), Thing(), Thing()
    job = service.submit(queued)
    assert service.cancel(job) == (JobState.QUEUED, queued)
    with pytest.raises(nocter.UnknownIdentity):
        service.cancel(job)
    job = service.submit(1)
    run_one(service, output)
    assert service.cancel(job) == (JobState.COMPLETED, output)
    job = service.submit(1)
    _, completion = service.claim().begin()
    assert service.cancel(job) == (JobState.RUNNING, None)
    assert completion.abandoned and completion.interrupt.raised and "abandoned" in repr(completion)
    with pytest.raises(nocter.StateError):
        service.cancel(job)
    with pytest.raises(nocter.StateError):
        service.take(job)
    completion.complete(Thing())
    now = check_identities(service)
    assert (now.cancelled_queued, now.cancelled_completed, now.abandoned_retired) == (1, 1, 1)
    assert held(service) == 0


def test_blk_09_the_interrupt_of_a_job_ends_its_waits_and_ends_with_it():
    service, signal = nocter.Blocking(), nocter.Signal()
    job = service.submit(1)
    _, completion = service.claim().begin()
    interrupt = completion.interrupt
    assert not interrupt.raised and not interrupt.closed
    threading.Timer(0.05, service.cancel, (job,)).start()
    with pytest.raises(nocter.Interrupted):
        signal.wait(signal.version, timeout=10, interrupt=interrupt)
    completion.complete()
    assert interrupt.closed
    with pytest.raises(ValueError, match="closed"):
        interrupt.raised


def test_blk_11_shutdown_hands_back_what_nobody_runs():
    service = nocter.Blocking(maximum_jobs=8, workers=2)
    things = [Thing() for _ in range(4)]
    jobs = [service.submit(thing) for thing in things]
    output = Thing()
    run_one(service, output)
    _, completion = service.claim().begin()
    with pytest.raises(nocter.StateError):
        service.drained(timeout=1)
    queued = [(JobState.QUEUED, thing) for thing in things[2:]]
    assert service.shutdown() == queued + [(JobState.COMPLETED, output)]
    assert service.shutdown() == []
    with pytest.raises(nocter.Closed):
        service.submit(1)
    for call in (service.claim, lambda: service.take(jobs[1])):
        with pytest.raises(nocter.Closed):
            call()
    with pytest.raises(nocter.UnknownIdentity):
        service.take(jobs[0])
    with pytest.raises(nocter.Pending):
        service.drained(timeout=0)
    assert completion.abandoned
    completion.complete(Thing())
    service.drained()
    now = check_identities(service)
    assert (now.accepting, now.admitted, now.shutdown_queued, now.shutdown_completed, held(service)) == (0, 0, 2, 1, 0)


def test_gen_01_guards_outlive_their_service():
    service, thing = nocter.Blocking(), Thing()
    service.submit(thing)
    service.submit(2)
    first, second = service.claim(), service.claim()
    service.close()
    del service
    gc.collect()
    value, completion = first.begin()
    assert value is thing and completion.abandoned
    completion.complete(1)
    second.close()


MISUSE = [
    (nocter.ArgumentError, lambda: nocter.Blocking(maximum_jobs=0)),
    (nocter.ArgumentError, lambda: nocter.Blocking(workers=0)),
    (nocter.ArgumentError, lambda: nocter.Blocking(maximum_jobs=4, workers=5)),
    (nocter.ArgumentError, lambda: nocter.Blocking(maximum_jobs=lib.NOCTER_BLOCKING_MAXIMUM_JOBS + 1)),
    (ValueError, lambda: nocter.Blocking(maximum_jobs=2**32)),
    (ValueError, lambda: nocter.Blocking(maximum_jobs=-1)),
    (TypeError, lambda: nocter.Blocking(maximum_jobs="many")),
    (ValueError, lambda: nocter.Blocking().completed(capacity=0)),
    (ValueError, lambda: nocter.Blocking().completed(capacity=2**40)),
    (ValueError, lambda: nocter.Blocking().claim(timeout=float("nan"))),
    (TypeError, lambda: nocter.Blocking().take(17)),
    (TypeError, lambda: nocter.Blocking().take(None)),
    (TypeError, lambda: nocter.Blocking().query(nocter.Blocking().epoch())),
    (TypeError, lambda: nocter.Blocking().cancel("job")),
    (TypeError, lambda: nocter.Blocking().wait_epoch(nocter.Blocking().submit(1))),
    (TypeError, lambda: nocter.Blocking().claim(interrupt=17)),
    (TypeError, lambda: nocter.Blocking().claim(timeout="soon")),
    (ValueError, lambda: nocter.Blocking(wait_spins=-1)),
    (ValueError, lambda: nocter.Blocking(wait_yields=2**32)),
    (TypeError, lambda: nocter.Blocking(waiters=nocter.Interrupt())),
    (TypeError, lambda: nocter.Blocking(work=5)),
    (nocter.ForeignIdentity, lambda: nocter.Blocking().take(nocter.Blocking().submit(1), timeout=0)),
    (nocter.ForeignIdentity, lambda: nocter.Blocking().query(nocter.Blocking().submit(1))),
    (nocter.ForeignIdentity, lambda: nocter.Blocking().cancel(nocter.Blocking().submit(1))),
    (nocter.ForeignIdentity, lambda: nocter.Blocking().wait_epoch(nocter.Blocking().epoch())),
    (nocter.ArgumentError, lambda: nocter.Signal().wait(2**63)),
    (OverflowError, lambda: nocter.Signal().wait(-1)),
    (TypeError, lambda: nocter.Signal().wait("now")),
    (nocter.StateError, lambda: nocter.Blocking().drained()),
]


@pytest.mark.parametrize("number", range(len(MISUSE)))
def test_gen_02_misuse_is_an_exception_and_leaves_no_trace(number):
    kind, call = MISUSE[number]
    with pytest.raises(kind):
        call()


def test_gen_02_consumed_guards_are_closed():
    service = nocter.Blocking()
    job = service.submit(1)
    running = service.claim()
    _, completion = running.begin()
    for call in (running.begin, lambda: running.id):
        with pytest.raises(ValueError, match="RunningJob is closed"):
            call()
    running.close()
    completion.complete(5)
    asks = (lambda: completion.id, lambda: completion.abandoned, lambda: completion.interrupt.raised)
    for call in (completion.complete,) + asks:
        with pytest.raises(ValueError, match="Completion is closed"):
            call()
    completion.close()
    assert service.take(job) == 5


def test_bnd_03_reprs_say_what_matters():
    service = nocter.Blocking(maximum_jobs=4, workers=2)
    service.submit(1)
    running = service.claim()
    assert repr(service) == "<nocter.Blocking open, 1 of 4 jobs, 1 running on 2 workers>"
    assert repr(running) == f"<nocter.RunningJob {running.id!r}>"
    _, completion = running.begin()
    assert repr(running) == "<nocter.RunningJob closed>"
    assert repr(completion) == f"<nocter.Completion of {completion.id!r}>"
    service.shutdown()
    assert repr(service) == "<nocter.Blocking shut down, 1 of 4 jobs, 0 running on 2 workers>"


def test_blk_14_eventfd_with_select():
    waiters, work = nocter.EventFd(), nocter.EventFd()
    service = nocter.Blocking(waiters=waiters, work=work)
    poller = select.poll()
    poller.register(work, select.POLLIN)
    with pytest.raises(nocter.Empty):
        service.claim(timeout=0)  # only a claim that found nothing is told
    assert poller.poll(0) == []
    job = service.submit("in")
    assert poller.poll(5000) == [(work.fileno(), select.POLLIN)]
    work.clear()
    assert poller.poll(0) == []
    assert select.select([waiters], [], [], 0)[0] == []
    assert run_one(service, "out") == "in"
    assert select.select([waiters], [], [], 5)[0] == [waiters]
    waiters.clear()
    assert service.completed() == [job] and service.take(job, timeout=0) == "out"


def test_blk_14_eventfd_with_asyncio():
    """Clear, ask which jobs ended, resolve their futures: many awaits, one descriptor."""

    async def main():
        loop, eventfd = asyncio.get_running_loop(), nocter.EventFd()
        service, futures = nocter.Blocking(maximum_jobs=64, workers=2, waiters=eventfd), {}

        def readable():
            eventfd.clear()
            for job in service.completed():
                futures.pop(job).set_result(service.take(job, timeout=0))

        def worker():
            try:
                while True:
                    value, completion = service.claim().begin()
                    completion.complete(value * value)
            except nocter.Closed:
                pass

        threads = [threading.Thread(target=worker) for _ in range(2)]
        for thread in threads:
            thread.start()
        loop.add_reader(eventfd, readable)
        awaited = []
        for number in range(50):
            # No await between the submit and the dict: the reader cannot run in between.
            futures[service.submit(number)] = future = loop.create_future()
            awaited.append(future)
        results = await asyncio.wait_for(asyncio.gather(*awaited), 20)
        loop.remove_reader(eventfd)
        service.close()
        for thread in threads:
            thread.join(10)
        return results

    assert asyncio.run(main()) == [number * number for number in range(50)]


def test_gen_04_a_signal_as_the_notifier():
    signal = nocter.Signal()
    with nocter.Blocking(waiters=signal) as service:
        seen = signal.version
        service.submit(1)
        run_one(service)
        assert signal.wait(seen, timeout=5) != seen


def test_gen_01_notifiers_outlive_their_makers_and_are_given_back():
    eventfd, signal = nocter.EventFd(), nocter.Signal()
    service = nocter.Blocking(waiters=eventfd, work=signal)
    eventfd.close()
    signal.close()
    job = service.submit(1)
    run_one(service)
    service.take(job)
    service.close()
    with pytest.raises(nocter.ArgumentError):
        nocter.Blocking(maximum_jobs=0, waiters=nocter.EventFd(), work=nocter.Signal())
    with pytest.raises(ValueError, match="EventFd is closed"):
        nocter.Blocking(waiters=eventfd)


def descriptors():
    import os

    return len(os.listdir("/proc/self/fd"))


def test_gen_01_descriptors_are_closed_with_the_last_user():
    gc.collect()
    before = descriptors()
    for _ in range(50):
        eventfd = nocter.EventFd()
        service = nocter.Blocking(waiters=eventfd)
        with pytest.raises(nocter.ArgumentError):
            nocter.Blocking(maximum_jobs=0, work=eventfd)
        del eventfd, service
    gc.collect()
    assert descriptors() <= before


def test_bnd_03_no_reference_is_leaked(choices):
    """Thousands of jobs end in every possible way; every object given in or out is gone afterwards."""
    watched = weakref.WeakSet()

    def thing():
        new = Thing()
        watched.add(new)
        return new

    service = nocter.Blocking(maximum_jobs=16, workers=4)
    waiting, guards = [], []
    for _ in range(6000):
        action = choices.randrange(9)
        if action < 3:
            try:
                waiting.append(service.submit(thing()))
            except nocter.Saturated:
                pass
        elif action == 3 and waiting:
            try:
                service.cancel(waiting.pop(choices.randrange(len(waiting))))
            except nocter.Error:
                pass
        elif action == 4 and waiting:
            try:
                service.take(waiting[0], timeout=0)
            except nocter.Pending:
                continue
            except nocter.Error:
                pass
            waiting.pop(0)
        elif action in (5, 6):
            try:
                guards.append(service.claim(timeout=0))
            except nocter.Empty:
                pass
        elif guards:
            guard = guards.pop(choices.randrange(len(guards)))
            if isinstance(guard, nocter.RunningJob):
                if choices.randrange(4) == 0:
                    guard.close()
                else:
                    guards.append(guard.begin()[1])
            elif choices.randrange(4) == 0:
                guard.close()
            else:
                guard.complete(thing())
        check_identities(service)
        assert held(service) <= 16
    before = service.count()
    assert before.cancelled_queued and before.cancelled_completed and before.abandoned_retired and before.completed_lost
    service.shutdown()
    for guard in guards:
        guard.close()
    now = check_identities(service)
    assert now.admitted == 0 and held(service) == 0
    assert now.accepted > 500 and now.taken > 100
    service.close()
    store = weakref.ref(service._store)
    del service, guard, guards
    gc.collect()
    assert len(watched) == 0 and store() is None


def test_gen_01_b_2_cancel_against_complete_on_two_threads():
    """Whoever wins, the output is seen by exactly one, or dropped and forgotten."""
    service, watched, seen = nocter.Blocking(maximum_jobs=4, workers=2), weakref.WeakSet(), [0, 0]
    stop = threading.Event()

    def worker():
        while not stop.is_set():
            try:
                _, completion = service.claim(timeout=1).begin()
            except nocter.Error:
                continue
            output = Thing()
            watched.add(output)
            completion.complete(output)
            del output

    threads = [threading.Thread(target=worker) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        job = service.submit(1)
        while service.query(job) is JobState.QUEUED:
            pass
        was, output = service.cancel(job)
        assert isinstance(output, Thing) == (was is JobState.COMPLETED)
        seen[was is JobState.COMPLETED] += 1
        while service.count().admitted == 4:
            time.sleep(0)
    stop.set()
    service.shutdown()
    for thread in threads:
        thread.join(10)
    del output
    gc.collect()
    assert held(service) == 0 and len(watched) == 0
    assert sum(seen) == 300
    assert check_identities(service).admitted == 0
