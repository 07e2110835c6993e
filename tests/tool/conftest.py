"""The tool as it was built, a database for each test, and a worker that does what it is told."""

import json
import os
import random
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIBRARY = os.environ.get("NOCTER_LIB_DIR", os.path.join(ROOT, "build/run"))
TOOL = os.environ.get("NOCTER_TOOL", os.path.join(LIBRARY, "nocter"))
LIMIT_SECONDS = 60

sys.path.insert(1, os.path.join(os.path.dirname(HERE), "treesum"))


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=os.environ.get("NOCTER_SEED") or None, help="the order of the tests")


def pytest_configure(config):
    seed = config.getoption("--seed")
    config.tool_seed = random.SystemRandom().randrange(2**32) if seed is None else int(seed)


def pytest_collection_modifyitems(config, items):
    random.Random(config.tool_seed).shuffle(items)


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"order: --seed {config.tool_seed}")


@pytest.fixture(scope="session")
def worker_program(tmp_path_factory):
    program = tmp_path_factory.mktemp("worker") / "worker"
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/capi/include", "-o", program,
                    os.path.join(HERE, "worker.c"), f"-L{LIBRARY}", "-lnocter", f"-Wl,-rpath,{LIBRARY}"], check=True)
    return program


class Worker:
    """A process that has the database open, and claims and ends what it is told to."""

    def __init__(self, program, database, *options):
        self.process = subprocess.Popen([program, f"sqlite:{database}", *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self._answer() == ["NOCTER_OK"]

    def _answer(self):
        line = self.process.stdout.readline()
        assert line, "the worker has gone"
        return line.split()

    def tell(self, *words, expect="NOCTER_OK"):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        status, *rest = self._answer()
        assert status == expect, (words, status, rest)
        return rest

    def claim(self, kind, expect="NOCTER_OK"):
        """The number of the run, and the id of its task."""
        return self.tell("claim", kind, expect=expect)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(LIMIT_SECONDS) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Tool:
    """`nocter --db` of one database."""

    def __init__(self, database):
        self.database = database

    def command(self, *words):
        return [TOOL, "--db", str(self.database), *map(str, words)]

    def run(self, *words, expect=0, given=None, environment=None):
        """What it printed; on failure what it said on standard error."""
        done = subprocess.run(self.command(*words), capture_output=True, input=given, timeout=LIMIT_SECONDS, check=False,
                              text=True, env=dict(os.environ, **(environment or {})))
        assert done.returncode == expect, (words, done)
        return done.stdout if expect == 0 else done.stderr

    def json(self, *words, expect=0):
        done = subprocess.run(self.command("--json", *words), capture_output=True, timeout=LIMIT_SECONDS, check=False, text=True)
        assert done.returncode == expect, (words, done)
        return json.loads(done.stdout)

    def submit(self, *words):
        return self.run("submit", "--create", *words).strip()


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path / "tasks.db")


@pytest.fixture
def start_worker(tool, worker_program):
    """Starts workers on the tool's database; those that are left are ended with the test."""
    workers = []

    def start(*options):
        workers.append(Worker(worker_program, tool.database, *options))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.poll() is None:
            worker.kill()
