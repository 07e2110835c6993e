"""What needs a process of its own: Ctrl-C in every wait, every way out of the interpreter."""

import signal
import time

import pytest

INTERRUPTED = {
    "signal": "signal = nocter.Signal(); wait = lambda: signal.wait(signal.version)",
    "signal_with_interrupt": """
        signal, interrupt = nocter.Signal(), nocter.Interrupt()
        wait = lambda: signal.wait(signal.version, interrupt=interrupt)""",
    "signal_with_timeout": "signal = nocter.Signal(); wait = lambda: signal.wait(signal.version, timeout=30)",
    "claim": "wait = nocter.Blocking().claim",
    "take_queued": "service = nocter.Blocking(); job = service.submit(1); wait = lambda: service.take(job)",
    "take_running": """
        service = nocter.Blocking()
        job, guard = service.submit(1), service.claim()
        wait = lambda: service.take(job)""",
    "wait_epoch": "service = nocter.Blocking(); wait = lambda: service.wait_epoch(service.epoch())",
    "drained": """
        service = nocter.Blocking()
        service.submit(1)
        guard = service.claim()
        service.shutdown()
        wait = service.drained""",
    "retirement_claim": "wait = nocter.Retirement().claim",
    "retirement_reserve": """
        service = nocter.Retirement(1, 1)
        permit = service.reserve()
        wait = lambda: service.reserve(timeout=None)""",
    "retirement_take": """
        service = nocter.Retirement()
        retirement = service.reserve().attach(1).retire()
        wait = lambda: service.take(retirement)""",
    "retirement_wait_epoch": "service = nocter.Retirement(); wait = lambda: service.wait_epoch(service.epoch())",
    "retirement_drained": "service = nocter.Retirement(); permit = service.reserve(); wait = service.drained",
    "keyed_claim": "wait = nocter.Keyed().claim",
    "keyed_claim_with_interrupt": """
        queue, interrupt = nocter.Keyed(), nocter.Interrupt()
        wait = lambda: queue.claim(interrupt=interrupt)""",
    "keyed_source": """
        queue = nocter.Keyed()
        def keys():
            yield time.sleep(30)
        queue.resync(keys, 0.001, 1)
        wait = queue.claim""",
    "keyed_source_anew": """
        queue = nocter.Keyed()
        queue.resync(lambda: time.sleep(30) or [], 0.001, 1)
        wait = queue.claim""",
    "keyed_source_in_python": """
        queue = nocter.Keyed()
        def keys():
            while True:
                pass
            yield "never"
        queue.resync(keys, 0.001, 1)
        wait = queue.claim""",
    "keyed_drained": """
        queue = nocter.Keyed()
        queue.notify("a")
        made = queue.claim()
        queue.shutdown()
        wait = queue.drained""",
    "workers_stop": """
        service = nocter.Retirement()
        workers = service.serve()
        service.reserve().attach(1, lambda: time.sleep(30)).close()
        time.sleep(0.05)
        wait = workers.stop""",
    "future": "executor = nocter.Executor(1); wait = executor.submit(time.sleep, 30).result",
    "saturated_submit": """
        executor = nocter.Executor(1, maximum_jobs=1)
        executor.submit(time.sleep, 30)
        wait = lambda: executor.submit(int)""",
    "shutdown": """
        executor = nocter.Executor(1)
        executor.submit(time.sleep, 30)
        wait = executor.shutdown""",
    "map": "executor = nocter.Executor(1, maximum_jobs=2); wait = lambda: list(executor.map(time.sleep, [30] * 9))",
}


@pytest.mark.parametrize("kind", sorted(INTERRUPTED))
def test_bnd_03_ctrl_c_ends_every_wait(kind, python):
    program = f"""
import time, nocter, textwrap
exec(textwrap.dedent({INTERRUPTED[kind]!r}))
print("ready", flush=True)
try:
    wait()
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""
    process = python(program, start_only=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.15)  # long enough for the wait to be asleep, well within its first slice
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert float(out) - sent < 1.0


def test_gen_07_a_handler_that_returns_does_not_end_a_wait(python):
    process = python(
        """
        import os, signal, threading, time, nocter
        calls = []
        signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        started = time.monotonic()
        try:
            nocter.Blocking().claim(timeout=0.5)
        except nocter.Timeout:
            print(calls, time.monotonic() - started >= 0.5)
        """
    )
    assert (process.returncode, process.out) == (0, "[1] True\n"), process.err


def test_bnd_03_an_interrupt_raised_in_a_signal_handler_ends_the_wait(python):
    process = python(
        """
        import os, signal, threading, nocter
        interrupt = nocter.Interrupt()
        signal.signal(signal.SIGUSR1, lambda *_: interrupt.raise_())
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            nocter.Blocking().claim(interrupt=interrupt)
        except nocter.Interrupted as problem:
            print(problem.status)
        """
    )
    assert (process.returncode, process.out) == (0, "7\n"), process.err


def test_bnd_03_a_handler_may_use_the_executor_that_it_interrupts(python):
    """The handler runs between any two steps of submit() in the same thread, and submits and cancels by itself."""
    process = python(
        """
        import signal, nocter
        with nocter.Executor(2, maximum_jobs=100_000) as executor:
            inner = []
            def handler(*_):
                number = len(inner)  # the handler may be interrupted by itself
                inner.append((number, executor.submit(int, number)))
                executor.submit(int).cancel()
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            outer = [executor.submit(int, number) for number in range(30_000)]
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert [future.result(20) for future in outer] == list(range(30_000))
            assert all(future.result(20) == number for number, future in inner)
        print(len(inner) > 10)
        """
    )
    assert (process.returncode, process.out) == (0, "True\n"), process.err


STATES = {
    "idle": "executor.submit(int).result()",
    "busy_in_sleep": "[executor.submit(time.sleep, 60) for _ in range(2)]; time.sleep(0.05)",
    "busy_in_python": """
def spin():
    while True:
        pass
[executor.submit(spin) for _ in range(2)]""",
    "busy_with_many": "[executor.submit(int) for _ in range(500)]",
    "busy_in_nocter": "[executor.submit(nocter.Blocking().claim) for _ in range(2)]; time.sleep(0.05)",
    "claiming_threads": """
service = nocter.Blocking()
[threading.Thread(target=service.claim, daemon=True).start() for _ in range(3)]
time.sleep(0.05)""",
    "a_thread_waits": """
executor.submit(time.sleep, 60)
executor.submit(time.sleep, 60)
queued = executor.submit(int)
threading.Thread(target=wait_for, args=(queued,)).start()""",
    "retirement_served": """
service = nocter.Retirement()
workers = service.serve()
service.reserve().attach(1, lambda: time.sleep(60)).close()
owner, permit, queued = service.reserve().attach(2, print), service.reserve(), service.reserve().attach(3, print)
queued.close()
time.sleep(0.05)""",
    "retirement_by_hand": """
service = nocter.Retirement(8, 3)
owners = [service.reserve().attach(number, print) for number in range(5)]
[owner.close() for owner in owners[1:]]
cleanup, begun, permit = service.claim(), service.claim(), service.reserve()
begun.begin()
[threading.Thread(target=service.claim, daemon=True).start() for _ in range(3)]""",
    "keyed_served": """
queue = nocter.Keyed(workers=3)
workers = queue.serve(lambda made: time.sleep(60) if made.key == b"slow" else None)
queue.notify_many(["slow", "a", "b"])
queue.notify_after("later", 3600)
time.sleep(0.05)""",
    "keyed_by_hand": """
queue = nocter.Keyed(8, 2)
queue.notify_many("abcde")
made, other = queue.claim(), queue.claim()
[threading.Thread(target=queue.claim, daemon=True).start() for _ in range(3)]""",
    "keyed_source_sleeps": """
queue = nocter.Keyed()
queue.resync(lambda: time.sleep(60) or [], 0.001, 1)
[threading.Thread(target=queue.claim, daemon=True).start() for _ in range(2)]
time.sleep(0.05)""",
    "keyed_source_in_python": """
queue = nocter.Keyed()
def keys():
    while True:
        pass
    yield "never"
queue.resync(keys, 0.001, 1)
threading.Thread(target=queue.claim, daemon=True).start()
time.sleep(0.05)""",
    "keyed_source_is_busy": """
queue = nocter.Keyed(workers=8)
queue.resync(lambda: map(str, range(1000)), 1e-9, 10)
workers = queue.serve(lambda made: None)
def claim():
    while True:
        queue.claim().complete()
[threading.Thread(target=claim, daemon=True).start() for _ in range(3)]
time.sleep(0.05)""",
    "watched": """
import asyncio, nocter.aio
async def main():
    watch = nocter.aio.Watch()
    queue, retirement = nocter.Keyed(work=watch.eventfd), nocter.Retirement(1, 1, waiters=watch.eventfd)
    queue.notify_after("later", 3600)
    kept = [watch, queue, retirement, await watch.reserve(retirement)]
    kept += [asyncio.ensure_future(each) for each in (watch.claim(queue), watch.reserve(retirement))]
    await asyncio.sleep(0.01)
    return kept
kept = asyncio.run(main())""",
    "never_shut_down": "kept = [nocter.Executor(2) for _ in range(5)]; [each.submit(int) for each in kept]",
}
ENDS = {
    "end": ("", 0),
    "exit": ("sys.exit(3)", 3),
    "exception": ("1 // 0", 1),
    "sigint": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(20)", -signal.SIGINT),
}


@pytest.mark.parametrize("end", sorted(ENDS))
@pytest.mark.parametrize("state", sorted(STATES))
def test_ffi_10_leaving_the_interpreter(state, end, python):
    statement, status = ENDS[end]
    program = f"""
import concurrent.futures, os, signal, sys, threading, time, nocter
def wait_for(future):
    try:
        future.result()
    except concurrent.futures.CancelledError:
        pass
executor = nocter.Executor(2)
{STATES[state]}
print(time.monotonic(), flush=True)
{statement}
"""
    process = python(program)
    assert process.returncode == status, process.err
    assert time.monotonic() - float(process.out) < 2.0
    for word in ("Fatal", "terminate called", "Segmentation", "core dumped"):
        assert word not in process.err


@pytest.mark.parametrize("job", ["int", "time.sleep, 60"])
def test_ffi_10_leaving_with_100000_jobs_in_flight(job, python):
    process = python(
        f"""
        import time, nocter
        executor = nocter.Executor(2, maximum_jobs=100_000)
        executor.submit(time.sleep, 60), executor.submit(time.sleep, 60)
        futures = [executor.submit({job}) for _ in range(99_998)]
        assert executor.count().admitted == 100_000
        print(time.monotonic(), flush=True)
        """
    )
    assert process.returncode == 0, process.err
    assert time.monotonic() - float(process.out) < 5.0
    assert process.err == ""


@pytest.mark.parametrize("served", [False, True])
def test_ffi_10_key_08_leaving_with_100000_keys(served, python):
    process = python(
        f"""
        import time, nocter
        queue = nocter.Keyed(100_000, 2, maximum_key_size=16)
        if {served}:
            workers = queue.serve(lambda made: time.sleep(60))
        queue.notify_many([str(number) for number in range(100_000)])
        assert queue.count().retained == 100_000
        print(time.monotonic(), flush=True)
        """
    )
    assert process.returncode == 0, process.err
    assert time.monotonic() - float(process.out) < 5.0
    assert process.err == ""


def test_ffi_10_at_exit_queued_jobs_are_cancelled_and_running_ones_may_end(python):
    process = python(
        """
        import atexit, time, nocter
        executor = nocter.Executor(1)
        running, queued = executor.submit(time.sleep, 0.2), executor.submit(print, "never")
        atexit.register(lambda: print(running.done(), running.cancelled(), queued.cancelled()))
        time.sleep(0.05)
        """
    )
    assert (process.returncode, process.out) == (0, "True False True\n"), process.err


def test_ffi_10_whatever_is_still_open_at_exit_is_left_in_silence(python):
    process = python(
        """
        import sys, nocter
        kept = [nocter.Signal(), nocter.EventFd(), nocter.Interrupt(), nocter.Blocking(waiters=nocter.EventFd())]
        service = nocter.Blocking(maximum_jobs=8, workers=4)
        jobs = [service.submit(object()) for _ in range(6)]
        running, completion = service.claim(), service.claim().begin()[1]
        interrupt = completion.interrupt
        done = service.claim().begin()[1]
        done.complete("out")
        retirement = nocter.Retirement(8, 2, work=nocter.Signal())
        permit, owner = retirement.reserve(), retirement.reserve().attach(object(), print)
        identity, cleanup = retirement.reserve().attach(object(), print).retire(), retirement.claim()
        retirement.reserve().attach(object(), print).close()
        left = nocter.Retirement()
        sys.owner = left.reserve().attach(object(), print)
        left.close()
        queue = nocter.Keyed(8, 2, waiters=nocter.Signal(), work=nocter.EventFd())
        queue.notify_many("abc")
        sys.made = queue.claim()
        queue.notify_after("d", 3600)
        queue.resync(list, 0.001, 1)
        cycle = [service.claim(), nocter.Executor(1).submit(int)]
        cycle.append(cycle)
        sys.cycle = cycle
        """
    )
    assert (process.returncode, process.out, process.err) == (0, "", "")


def test_ffi_17_os_exit_with_busy_workers(python):
    process = python(
        """
        import os, time, nocter
        executor = nocter.Executor(4)
        futures = [executor.submit(time.sleep, 60) for _ in range(100)]
        print(time.monotonic(), flush=True)
        os._exit(5)
        """
    )
    assert process.returncode == 5 and time.monotonic() - float(process.out) < 1.5
