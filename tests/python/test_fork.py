"""Forked children: what belongs to the parent says so, and new things work."""


def test_ffi_11_every_call_of_a_forked_child_says_so(python):
    process = python(
        """
        import gc, os, threading, nocter

        def refuses(call, *arguments):
            try:
                call(*arguments)
            except nocter.Forked as problem:
                assert problem.status == -13, problem.status
                return
            raise AssertionError(f"{call} worked in the child")

        signal, eventfd = nocter.Signal(), nocter.EventFd()
        service = nocter.Blocking(maximum_jobs=4, workers=2, waiters=eventfd)
        job, other = service.submit(1), service.submit(2)
        epoch, running = service.epoch(), service.claim()
        completion = service.claim().begin()[1]
        executor = nocter.Executor(1)
        gate = threading.Event()
        futures = [executor.submit(gate.wait, 30), executor.submit(int, 5)]
        version = signal.version
        child = os.fork()
        if child == 0:
            refuses(service.submit, 3)
            refuses(service.claim, 0)
            refuses(service.take, job, 0)
            refuses(service.query, job)
            refuses(service.cancel, job)
            refuses(service.completed)
            refuses(service.epoch)
            refuses(service.wait_epoch, epoch, 0)
            refuses(service.shutdown)
            refuses(service.drained, 0)
            refuses(service.count)
            refuses(running.begin)
            refuses(completion.complete, 1)
            refuses(signal.publish)
            refuses(signal.wait, version, 0)
            refuses(executor.submit, int)
            refuses(executor.count)
            refuses(executor.shutdown)
            assert signal.version == 0 and eventfd.fileno() == -1
            assert "NOCTER_E_FORKED" in repr(service), repr(service)
            for future in futures:
                refuses(future.result, 5)
                assert not future.cancel()
            for handle in (service, signal, eventfd, running, completion):
                handle.close()
                assert handle.closed
            del service, running, completion, executor
            gc.collect()
            with nocter.Executor(2) as fresh:
                assert fresh.submit(pow, 2, 8).result(10) == 256
            with nocter.Blocking() as fresh, nocter.Signal() as also:
                again = fresh.submit("x")
                value, guard = fresh.claim().begin()
                guard.complete(value * 2)
                assert fresh.take(again) == "xx" and also.publish() > 1
            print("child", flush=True)
            raise SystemExit
        assert os.waitpid(child, 0)[1] == 0
        gate.set()
        assert [future.result(10) for future in futures] == [True, 5]
        completion.complete("out")
        running.close()
        assert service.take(other) == "out"
        executor.shutdown()
        print("parent")
        """
    )
    assert (process.returncode, process.out) == (0, "child\nparent\n"), process.err


def test_ffi_11_retirement_of_a_forked_child_says_so(python):
    process = python(
        """
        import gc, os, nocter

        def refuses(call, *arguments):
            try:
                call(*arguments)
            except nocter.Forked as problem:
                assert problem.status == -13, problem.status
                return
            raise AssertionError(f"{call} worked in the child")

        service = nocter.Retirement(8, 2)
        retirement, ended = service.reserve().attach(1, lambda: ended.append(1)).retire(), []
        cleanup, permit, epoch = service.claim(), service.reserve(), service.epoch()
        owner = service.reserve().attach(2, lambda: ended.append(2))
        workers = service.serve()
        child = os.fork()
        if child == 0:
            for call in (service.reserve, service.epoch, service.count, service.serve):
                refuses(call)
            for call in (service.claim, service.drained):
                refuses(call, 0)
            refuses(service.take, retirement, 0)
            refuses(service.query, retirement)
            refuses(service.detach, retirement)
            refuses(service.wait_epoch, epoch, 0)
            refuses(permit.attach, 3)
            refuses(owner.retire)
            assert cleanup.begin() == 1 and owner.value == 2
            refuses(cleanup.complete)
            workers.stop(5)
            for handle in (service, permit, owner, cleanup):
                handle.close()
            del service, permit, owner, cleanup
            gc.collect()
            assert ended == []
            with nocter.Retirement() as fresh, fresh.serve():
                assert fresh.take(fresh.reserve().attach(1, lambda: 8).retire(), 10) == 8
            print("child", flush=True)
            raise SystemExit
        assert os.waitpid(child, 0)[1] == 0
        owner.close()
        cleanup.run()
        permit.close()
        assert service.take(retirement) == 0
        service.drained(10)
        print("parent", ended)
        """
    )
    assert process.returncode == 0, process.err
    assert process.out in ("child\nparent [1, 2]\n", "child\nparent [2, 1]\n")


def test_ffi_11_a_keyed_queue_of_a_forked_child_says_so(python):
    process = python(
        """
        import gc, os, nocter

        def refuses(call, *arguments):
            try:
                call(*arguments)
            except nocter.Forked as problem:
                assert problem.status == -13, problem.status
                return
            raise AssertionError(f"{call} worked in the child")

        queue = nocter.Keyed(8, 2)
        queue.notify_many("ab")
        made, workers = queue.claim(), queue.serve(lambda made: None)
        queue.resync(list, 3600, 1)
        child = os.fork()
        if child == 0:
            refuses(queue.notify, "c")
            refuses(queue.notify_after, "c", 1)
            refuses(queue.notify_many, ["c"])
            refuses(queue.claim, 0)
            refuses(queue.drained, 0)
            refuses(queue.resync, list, 1, 1)
            for call in (queue.end_resync, queue.next_due, queue.count, made.complete, made.fail, made.retry_after):
                refuses(call)
            refuses(queue.serve, print)
            assert made.key == b"a"
            workers.stop(5)
            queue.shutdown()
            for handle in (queue, made):
                handle.close()
            del queue, made
            gc.collect()
            with nocter.Keyed() as fresh:
                fresh.notify("x")
                assert fresh.claim().key == b"x"
            print("child", flush=True)
            raise SystemExit
        assert os.waitpid(child, 0)[1] == 0
        made.complete()
        queue.notify("c")
        queue.shutdown(drain=True)
        queue.drained(10)
        print("parent", queue.count().completed)
        """
    )
    assert (process.returncode, process.out) == (0, "child\nparent 3\n"), process.err


def test_ffi_11_multiprocessing_with_fork_while_all_is_busy(python):
    """Locks are held by other threads at the moment of the fork; the child must not wait for them."""
    process = python(
        """
        import multiprocessing, sys, threading, nocter
        sys.setswitchinterval(1e-5)
        executor, service, stop = nocter.Executor(2, maximum_jobs=64), nocter.Blocking(), threading.Event()

        def submitter():
            while not stop.is_set():
                executor.submit(int).cancel()
                job = service.submit(1)
                service.cancel(job)

        def child():
            for call in (lambda: executor.submit(int), lambda: service.submit(1), service.shutdown, executor.shutdown):
                try:
                    call()
                except nocter.Forked:
                    continue
                raise SystemExit(7)
            with nocter.Executor(2) as fresh:
                assert list(fresh.map(abs, [-1, -2])) == [1, 2]

        threads = [threading.Thread(target=submitter) for _ in range(3)]
        for thread in threads:
            thread.start()
        context = multiprocessing.get_context("fork")
        for _ in range(25):
            process = context.Process(target=child)
            process.start()
            process.join(20)
            assert process.exitcode == 0, process.exitcode
        stop.set()
        for thread in threads:
            thread.join()
        executor.shutdown()
        print(executor.count().admitted, service.count().admitted)
        """,
        timeout=50,
    )
    assert (process.returncode, process.out) == (0, "0 0\n"), process.err


def test_ffi_11_a_job_may_fork(python):
    process = python(
        """
        import os, nocter
        def fork():
            child = os.fork()
            if child == 0:
                os._exit(9)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with nocter.Executor(2) as executor:
            print([future.result(10) for future in [executor.submit(fork) for _ in range(4)]])
        """
    )
    assert (process.returncode, process.out) == (0, "[9, 9, 9, 9]\n"), process.err
