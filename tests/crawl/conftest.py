"""The crawl example and the tool as they were built, and servers for them on the loopback."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIBRARY = os.environ.get("NOCTER_LIB_DIR", os.path.join(ROOT, "build/run"))
CRAWL = os.environ.get("CRAWL_C", os.path.join(LIBRARY, "crawl"))
TOOL = os.environ.get("NOCTER_TOOL", os.path.join(LIBRARY, "nocter"))
DOCUMENTATION = "/usr/share/doc/python3.11/html"  # of Debian's package python3-doc
LIMIT_SECONDS = 120

sys.path.insert(1, HERE)
sys.path.insert(1, os.path.join(os.path.dirname(HERE), "treesum"))
os.environ.update(no_proxy="127.0.0.1", NO_PROXY="127.0.0.1")

from reference import report_of  # noqa: E402
from site_of_tests import Site  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, default=os.environ.get("NOCTER_SEED") or None, help="the random choices")


def pytest_configure(config):
    seed = config.getoption("--seed")
    config.crawl_seed = random.SystemRandom().randrange(2**32) if seed is None else int(seed)


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.write_line(f"choices: --seed {config.crawl_seed}")


@pytest.fixture
def choices(request):
    return random.Random(f"{request.config.crawl_seed} {request.node.nodeid}")


class Crawl:
    """`crawl START --db FILE`, run to its end or started."""

    def __init__(self, database):
        self.database = database
        self.started = []

    def command(self, start, *options):
        return [CRAWL, start, "--db", str(self.database), *options]

    def run(self, start, *options, before=()):
        """The exit status, the lines of the report, and what was said on standard error."""
        done = subprocess.run([*before, *self.command(start, *options)], capture_output=True, text=True, timeout=LIMIT_SECONDS,
                              check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def start(self, start, *options):
        process = subprocess.Popen(self.command(start, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def records(self):
        """All tasks there are, as the tool shows them."""
        done = subprocess.run([TOOL, "--db", str(self.database), "--json", "list", "--limit", "0"], capture_output=True, check=True)
        return json.loads(done.stdout)


@pytest.fixture
def crawl(tmp_path):
    program = Crawl(tmp_path / "crawl.db")
    yield program
    for process in program.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def documentation():
    """Part of Python's documentation, served as anybody would: its address, and what is to be reported of it."""
    with subprocess.Popen([sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory",
                           f"{DOCUMENTATION}/c-api", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        port = re.search(r"port (\d+)", server.stdout.readline())[1]
        start = f"http://127.0.0.1:{port}/index.html"
        yield start, report_of(start)
        server.send_signal(signal.SIGKILL)


@pytest.fixture
def site():
    """A site of a test's own making."""
    with Site() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield made
        made.release.set()
        made.shutdown()
