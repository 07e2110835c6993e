"""A hundred thousand changes by four processes, and whatever goes wrong meanwhile: in the end the trees are equal.

One storm is for several mirrors of the same tree, in each language.
"""

import os
import random
import signal
import time

import pytest

import trees
from programs import LANGUAGES, Storm, stop, wait_until_equal

PROCESSES = 4
CHANGES = 25000  # of each


class Mirrors:
    """Several of one tree, each with a target of its own."""

    def __init__(self, program_of, place, source, options):
        self.source = source
        self.running = []
        for language in LANGUAGES:
            for number, words in enumerate(options):
                target = os.path.join(place, language.encode() + b"-" + "".join(words).encode() + b"-%d" % number)
                self.running.append((program_of(language).start(source, target, *words), target))

    def signal(self, number):
        for process, _ in self.running:
            process.send_signal(number)

    def settle(self):
        """Equal trees, and the end of the mirrors: what each says."""
        for process, target in self.running:
            wait_until_equal(process, self.source, target)
        summaries = [stop(process) for process, _ in self.running]
        for (_, target), summary in zip(self.running, summaries):
            trees.assert_equal(self.source, target)
            assert (summary.before, summary.problems) == (b"", 0)
        return summaries


@pytest.fixture
def mirrors(program_of, place, source):
    """Gives mirrors with such options each."""

    def begin(*options):
        return Mirrors(program_of, place, source, options)

    return begin


def storm_over(source, seed):
    return Storm(source, seed, PROCESSES, CHANGES)


def test_key_01_key_03_a_storm_of_changes(mirrors, source, seed):
    """Half of them are stopped and continued again and again meanwhile."""
    choices = random.Random(seed)
    calm, stopped = mirrors([]), mirrors(["--workers=3"])
    storm = storm_over(source, seed)
    stops = 0
    while storm.running():
        stopped.signal(signal.SIGSTOP)
        time.sleep(choices.choice([0, 0.001, 0.02, 0.1]))
        stopped.signal(signal.SIGCONT)
        time.sleep(choices.choice([0.005, 0.02, 0.1]))
        stops += 1
    assert storm.finish() >= PROCESSES * CHANGES
    assert stops > 0
    calm.settle()
    stopped.settle()


def test_key_05_key_10_a_queue_that_is_always_full(mirrors, source, seed):
    """K-6, K-7: what is refused is found again by going over everything."""
    full = mirrors(["--keys=1"], ["--keys=4"])
    storm = storm_over(source, seed)
    assert storm.finish() >= PROCESSES * CHANGES
    for summary in full.settle():
        assert summary.refused > 0 and summary.rounds > 0


def test_key_10_events_that_the_kernel_lost(mirrors, source, seed):
    """Stopped for the whole storm, which is more than the kernel keeps events of."""
    stopped = mirrors([])
    for process, target in stopped.running:
        wait_until_equal(process, source, target)  # SRC is watched now
    stopped.signal(signal.SIGSTOP)
    storm = storm_over(source, seed)
    assert storm.finish() >= PROCESSES * CHANGES
    stopped.signal(signal.SIGCONT)
    for summary in stopped.settle():
        assert summary.overflows > 0 and summary.rounds > 0
