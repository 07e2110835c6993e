"""Many jobs at once: which have ended, and taking them as they end."""

import threading

import pytest

import nocter
from nocter import JobState


def run_one(service, output=None):
    """Claims and completes one job and returns what it was given."""
    value, completion = service.claim(timeout=10).begin()
    completion.complete(output)
    return value


def test_blk_12_completed_names_each_ended_job_once():
    service = nocter.Blocking()
    jobs = [service.submit(number) for number in range(5)]
    assert service.completed() == []
    for _ in range(4):
        run_one(service)
    service.take(jobs[1])
    assert service.completed(capacity=2) == [jobs[0], jobs[2]]
    service.claim().close()
    assert service.completed() == [jobs[3], jobs[4]]
    assert service.completed() == []
    assert service.take(jobs[0]) is None


def test_blk_12_take_many_takes_jobs_as_they_end():
    service = nocter.Blocking()
    with pytest.raises(nocter.Pending):
        service.take_many(timeout=0)
    jobs = [service.submit(number) for number in range(4)]
    run_one(service, "first")
    service.claim().close()  # its worker is lost
    run_one(service)
    first = service.take_many(capacity=2)
    assert [job for job, _ in first] == jobs[:2]
    assert first[0][1] == "first" and isinstance(first[1][1], nocter.WorkerLost)
    worker = threading.Timer(0.05, run_one, [service])
    rest = service.take_many()
    worker.start()
    rest += service.take_many(timeout=10)
    worker.join()
    assert [job for job, _ in rest] == jobs[2:]
    for job in jobs:
        with pytest.raises(nocter.UnknownIdentity):
            service.take(job)
    with pytest.raises(ValueError):
        service.take_many(capacity=0)
    assert service.count().admitted == 0


@pytest.mark.parametrize("look", ["nothing", "query", "take", "capacity"])
def test_blk_12_b_30_one_asking_names_all_that_ended_before_it(look):
    """An event loop asks once a wake: whatever was looked at before, no job that ended may wait for another wake."""
    service = nocter.Blocking(maximum_jobs=8, workers=2)
    jobs = [service.submit(number) for number in range(4)]
    for _ in range(3):
        run_one(service)
    named = []
    if look == "query":
        assert service.query(jobs[0]) is JobState.COMPLETED
    elif look == "take":
        service.take(jobs.pop(1), timeout=0)
    elif look == "capacity":
        named = service.completed(capacity=1)
    run_one(service)
    assert named + service.completed() == jobs
    assert service.completed() == []


def test_blk_12_a_job_without_an_output_is_taken_before_its_completion_has_returned(monkeypatch):
    service, real = nocter.Blocking(), nocter._blocking.lib

    class TakenAtOnce:
        def __getattr__(self, name):
            return getattr(real, name)

        def nocter_completion_complete(self, completion, output):
            status = real.nocter_completion_complete(completion, output)
            assert service.take(job) is None
            return status

    job = service.submit("input")
    _, completion = service.claim().begin()
    monkeypatch.setattr(nocter._blocking, "lib", TakenAtOnce())
    completion.complete()
    assert service._store.values == {}
