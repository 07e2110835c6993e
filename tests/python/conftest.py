"""Random order with a printed seed (--seed repeats one), a limit on each test, and what many tests share."""

import faulthandler
import os
import random
import subprocess
import sys
import textwrap
import threading
import time

import pytest

LIMIT_SECONDS = 60


def pytest_addoption(parser):
    given = os.environ.get("NOCTER_SEED") or None
    parser.addoption("--seed", type=int, default=given, help="the order of the tests and the random choices in them")


def pytest_configure(config):
    # What goes wrong in a thread is a failure of the test that it ran under.
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")
    given = config.getoption("--seed")
    config.nocter_seed = random.SystemRandom().randrange(2**32) if given is None else given


def pytest_report_header(config):
    import nocter

    return f"nocter {nocter.__version__} from {nocter.library_path}; order and choices: --seed {config.nocter_seed}"


def pytest_collection_modifyitems(config, items):
    random.Random(config.nocter_seed).shuffle(items)


@pytest.fixture(autouse=True)
def limit(request):
    """A hang shows where it hangs, and ends the run, also when it holds the interpreter lock."""

    def end():
        request.config.pluginmanager.getplugin("capturemanager").suspend_global_capture(in_=True)
        print(f"{request.node.nodeid} hangs", file=sys.__stderr__, flush=True)
        faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
        os._exit(3)

    timer = threading.Timer(LIMIT_SECONDS, end)
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(LIMIT_SECONDS + 10, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    timer.cancel()


@pytest.fixture
def choices(request):
    return random.Random(f"{request.config.nocter_seed} {request.node.nodeid}")


@pytest.fixture
def wait_for():
    """Waits until something that another thread does has happened; fails when it does not."""

    def wait(condition, seconds=10.0):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.002)

    return wait


@pytest.fixture
def python():
    """Runs a program in its own interpreter."""

    def run(program, *, timeout=20, start_only=False, **environment):
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        if start_only:
            return process
        started = time.monotonic()
        try:
            process.out, process.err = process.communicate(timeout=timeout)
        finally:
            process.kill()
        process.seconds = time.monotonic() - started
        return process

    return run
