"""The two programs, the order of the tests, and what they gather from."""

import os
import random
import shlex
import subprocess
import sys
import threading

import pytest

sys.path.insert(1, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "treesum"))

from programs import LIMIT_SECONDS, ROOT, Program  # noqa: E402
from servers import Servers  # noqa: E402

LANGUAGES = ["c", "python"]


def pytest_addoption(parser):
    given = os.environ.get("NOCTER_SEED") or None
    parser.addoption("--seed", type=int, default=given, help="the order of the tests and the random choices in them")


def pytest_configure(config):
    seed = config.getoption("--seed")
    config.gather_seed = random.SystemRandom().randrange(2**32) if seed is None else int(seed)


def pytest_collection_modifyitems(config, items):
    random.Random(config.gather_seed).shuffle(items)


def pytest_unconfigure():
    for process in Gather.started:
        process.kill()


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"order and choices: --seed {config.gather_seed}")


@pytest.fixture
def choices(request):
    return random.Random(f"{request.config.gather_seed} {request.node.nodeid}")


def command_of(language):
    """From GATHER_C, GATHER_PYTHON, or where the sources of the language are."""
    given = os.environ.get(f"GATHER_{language.upper()}")
    if given:
        return shlex.split(given)
    if language == "c":
        return [os.path.join(os.environ.get("NOCTER_LIB_DIR", os.path.join(ROOT, "build/run")), "gather")]
    return [sys.executable, os.path.join(ROOT, "bindings/python/examples/gather.py")]


class Gather(Program):
    """One that hangs is killed, so that whoever waits for what it prints sees its end; so is one that a failed test left."""

    started = []

    def __repr__(self):
        return f"gather in {self.language}"

    def start(self, *arguments, **options):
        process = super().start(*arguments, **options)
        self.started.append(process)
        watchdog = threading.Timer(LIMIT_SECONDS, process.kill)
        watchdog.daemon = True
        watchdog.start()
        return process


PROGRAMS = {language: Gather(language, command_of(language)) for language in LANGUAGES}


@pytest.fixture(params=LANGUAGES)
def program(request):
    return PROGRAMS[request.param]


@pytest.fixture
def programs():
    return PROGRAMS


@pytest.fixture(scope="session")
def servers():
    with Servers() as running:
        yield running


@pytest.fixture(scope="session")
def slow_close(tmp_path_factory):
    """What is to be preloaded for a close that blocks."""
    library = tmp_path_factory.mktemp("slow_close") / "slow_close.so"
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_close.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, source], check=True)
    return library
