"""BND-06: one database with workers in C, Python and Rust at the same time, each a process of its own.

Each language serves the same children and has a parent of its own; a root in this process waits for the three parents.
"""

import os
import signal
import subprocess
import sys

import pytest

from nocter import tasks as durable
from nocter.tasks import Status

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIBRARY = os.environ.get("NOCTER_LIB_DIR", os.path.join(ROOT, "build/run"))
LANGUAGES = ["c", "python", "rust"]
LAST = 40
SQUARES = sum(number**2 for number in range(1, LAST + 1))


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """What starts the worker of each language."""
    worker = tmp_path_factory.mktemp("c") / "worker"
    warnings = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    source = [f"{HERE}/worker.c", "-o", str(worker), f"-I{ROOT}/capi/include", f"-L{LIBRARY}", "-lnocter"]
    subprocess.run(["cc", *warnings, *source, f"-Wl,-rpath,{LIBRARY}"], check=True)
    crates = os.path.join(ROOT, "bindings/rust")
    subprocess.run(["cargo", "build", "--quiet", "--offline", "--example", "squares"], cwd=crates, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(crates, "target"))
    return {
        "c": [str(worker)],
        "python": [sys.executable, f"{HERE}/worker.py"],
        "rust": [os.path.join(target, "debug/examples/squares")],
    }


@pytest.fixture
def work(tmp_path, commands):
    """A database, and a way to start workers on it, which are stopped in the end."""
    database, processes = tmp_path / "work.db", []

    def start(language):
        process = subprocess.Popen([*commands[language], str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    with durable.open(f"sqlite:{database}") as store:
        yield store, start
    for process in processes:
        if process.poll() is None:
            process.communicate("", timeout=20)
            assert process.returncode == 0
        process.stdout.close()


def root(ctx):
    if not ctx.resumed:
        for language in LANGUAGES:
            ctx.submit_child(f"sum.{language}", LAST)
        return durable.suspend_until_children()
    return {child.type: child.result for child in ctx.children()}


def check_report(store, id):
    assert store.wait(id, timeout=60).value() == {f"sum.{language}": SQUARES for language in LANGUAGES}
    squares = list(store.each(type="square", root=id, limit=50))
    assert len(squares) == 3 * LAST and {square.status for square in squares} == {Status.COMPLETED}
    assert all(square.result == square.payload**2 for square in squares)
    return squares


def test_bnd_06_a_type_has_workers_in_three_languages_at_once(work):
    store, start = work
    store.handler("root")(root)
    for language in LANGUAGES:
        start(language)
    with store.serve(1):
        id = store.submit("root")
        squares = check_report(store, id)
    assert {square.state for square in squares} == set(LANGUAGES)
    parents = {record.id: record.type for record in store.children(id)}
    worked = {(parents[square.parent], square.state) for square in squares}
    assert len(worked) > 5, worked  # children of one language were worked on in the others
    assert store.count().repairs == 0


def test_bnd_06_tsk_18_what_a_killed_worker_ran_is_made_in_another_language(work):
    store, start = work
    store.handler("root")(root)
    with store.serve(1):
        id = store.submit("root")
        killed = [start(language) for language in LANGUAGES]
        for process in killed:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for language in LANGUAGES:
            start(language)
        check_report(store, id)
