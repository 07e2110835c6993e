"""Running mirror, and storms over the tree that it mirrors."""

import os
import re
import signal
import subprocess
import sys
import time

import trees

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LANGUAGES = ["c", "rust"]
USAGE = b"usage: mirror SRC DST [--workers N] [--keys N] [--resync SECONDS] [--once]\n"
LIMIT_SECONDS = 120
SUMMARY = re.compile(rb"mirror: (\d+) passes, (\d+) problems, (\d+) overflows, (\d+) refused, (\d+) rounds\n\Z")

# What makes root read files that their modes forbid.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


class Summary:
    """The last line that mirror says."""

    def __init__(self, err):
        found = SUMMARY.search(err)
        assert found, err
        self.passes, self.problems, self.overflows, self.refused, self.rounds = map(int, found.groups())
        self.before = err[:found.start()]


class Program:
    """One of the two, and how it is called."""

    def __init__(self, language, command):
        self.language = language
        self.command = command

    def run(self, *arguments, before=()):
        """Runs it to its end: (exit status, stderr)."""
        done = subprocess.run([*before, *self.command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, timeout=LIMIT_SECONDS, check=False)
        return done.returncode, done.stderr

    def start(self, *arguments):
        return started(subprocess.Popen([*self.command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE))


STARTED = []


def started(process):
    STARTED.append(process)
    return process


def end_all():
    """What a test that failed has left running."""
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()


def soon(condition, what, seconds=LIMIT_SECONDS):
    """Waits until the condition gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    pause = 0.02
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(pause)
        pause = min(0.5, 1.5 * pause)


def wait_until_equal(process, source, target):
    """Trees that nobody but the mirror changes any more."""
    def equal():
        assert process.poll() is None, process.stderr.read()
        return trees.differences(source, target) == []

    try:
        soon(equal, "equal trees", 60)
    except AssertionError:
        process.kill()
        raise AssertionError(trees.differences(source, target)) from None


def stop(process):
    """Ctrl-C: its summary."""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 130, err
    summary = Summary(err)
    assert summary.before.endswith(b"mirror: interrupted\n")
    summary.before = summary.before[:-len(b"mirror: interrupted\n")]
    return summary


class Storm:
    """So many processes that change the tree at once."""

    def __init__(self, tree, seed, processes, changes):
        storm = [sys.executable, os.path.join(HERE, "storm.py"), os.fsdecode(tree), str(seed)]
        self.processes = [started(subprocess.Popen([*storm, str(number), str(changes)], stdout=subprocess.PIPE))
                          for number in range(processes)]

    def running(self):
        return any(process.poll() is None for process in self.processes)

    def finish(self):
        """How many changes were made."""
        made = 0
        for process in self.processes:
            out, _ = process.communicate(timeout=LIMIT_SECONDS)
            assert process.returncode == 0
            made += int(out)
        return made
