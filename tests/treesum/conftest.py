"""The three programs, the order of the tests, and the trees that several tests share."""

import os
import random
import shlex
import subprocess
import sys
import tempfile

import pytest

import trees
from programs import LANGUAGES, ROOT, Program


def pytest_addoption(parser):
    given = os.environ.get("NOCTER_SEED") or None
    parser.addoption("--seed", type=int, default=given, help="the order of the tests and the random choices in them")


def pytest_configure(config):
    seed = config.getoption("--seed")
    config.treesum_seed = random.SystemRandom().randrange(2**32) if seed is None else int(seed)


def pytest_collection_modifyitems(config, items):
    random.Random(config.treesum_seed).shuffle(items)


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"order and choices: --seed {config.treesum_seed}")


@pytest.fixture
def choices(request):
    return random.Random(f"{request.config.treesum_seed} {request.node.nodeid}")


def built_by_cargo():
    """The Rust example, built where CARGO_TARGET_DIR says."""
    crates = os.path.join(ROOT, "bindings/rust")
    subprocess.run(["cargo", "build", "--quiet", "--offline", "--example", "treesum"], cwd=crates, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(crates, "target"))
    return [os.path.join(target, "debug/examples/treesum")]


def command_of(language):
    """From TREESUM_C, TREESUM_PYTHON, TREESUM_RUST, or where the sources of the language are."""
    given = os.environ.get(f"TREESUM_{language.upper()}")
    if given:
        return shlex.split(given)
    if language == "c":
        return [os.path.join(os.environ.get("NOCTER_LIB_DIR", os.path.join(ROOT, "build/run")), "treesum")]
    if language == "python":
        return [sys.executable, os.path.join(ROOT, "bindings/python/examples/treesum.py")]
    return built_by_cargo()


@pytest.fixture(scope="session")
def program_of():
    """Gives the program of a language; each is found, or built, once."""
    found = {}

    def find(language):
        if language not in found:
            found[language] = Program(language, command_of(language))
        return found[language]

    return find


@pytest.fixture(params=LANGUAGES)
def program(request, program_of):
    return program_of(request.param)


@pytest.fixture(scope="session")
def place():
    """A folder for trees, in memory if there is room: making and removing some ten thousand files takes a disk minutes."""
    memory = "/dev/shm"
    room = os.statvfs(memory) if os.access(memory, os.W_OK) else None
    in_memory = room is not None and room.f_bavail * room.f_frsize > 2 << 30
    path = os.fsencode(tempfile.mkdtemp(prefix="treesum-", dir=memory if in_memory else None))
    yield path
    trees.remove(path)


@pytest.fixture(scope="session")
def tricky(place):
    return trees.tricky(os.path.join(place, b"tricky"))


@pytest.fixture(scope="session")
def plain(place):
    """A small tree without any problem."""
    return trees.plain(os.path.join(place, b"plain"))


@pytest.fixture(scope="session")
def slow(place):
    """Takes minutes to sum, and no room on the disk."""
    return trees.slow(os.path.join(place, b"slow"))
