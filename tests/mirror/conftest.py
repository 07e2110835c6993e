"""The two programs, the order of the tests, and folders for trees."""

import os
import random
import shlex
import subprocess
import tempfile

import pytest

import trees
from programs import LANGUAGES, ROOT, Program, end_all


def pytest_addoption(parser):
    given = os.environ.get("NOCTER_SEED") or None
    parser.addoption("--seed", type=int, default=given, help="the order of the tests and the random choices in them")


def pytest_configure(config):
    seed = config.getoption("--seed")
    config.mirror_seed = random.SystemRandom().randrange(2**32) if seed is None else int(seed)


def pytest_collection_modifyitems(config, items):
    random.Random(config.mirror_seed).shuffle(items)


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"order and choices: --seed {config.mirror_seed}")


@pytest.fixture
def seed(request):
    return f"{request.config.mirror_seed} {request.node.nodeid}"


def built_by_cargo():
    """The Rust example, built where CARGO_TARGET_DIR says."""
    crates = os.path.join(ROOT, "bindings/rust")
    subprocess.run(["cargo", "build", "--quiet", "--offline", "--example", "mirror"], cwd=crates, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(crates, "target"))
    return [os.path.join(target, "debug/examples/mirror")]


def command_of(language):
    """From MIRROR_C, MIRROR_RUST, or where the sources of the language are."""
    given = os.environ.get(f"MIRROR_{language.upper()}")
    if given:
        return shlex.split(given)
    if language == "c":
        return [os.path.join(os.environ.get("NOCTER_LIB_DIR", os.path.join(ROOT, "build/run")), "mirror")]
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


@pytest.fixture
def place():
    """A folder in memory if there is room: a disk takes minutes for so many small files."""
    memory = "/dev/shm"
    room = os.statvfs(memory) if os.access(memory, os.W_OK) else None
    in_memory = room is not None and room.f_bavail * room.f_frsize > 1 << 30
    path = os.fsencode(tempfile.mkdtemp(prefix="mirror-", dir=memory if in_memory else None))
    yield path
    end_all()
    trees.remove(path)


@pytest.fixture
def source(place):
    path = os.path.join(place, b"source")
    os.mkdir(path)
    return path


@pytest.fixture
def target(place):
    return os.path.join(place, b"target")
