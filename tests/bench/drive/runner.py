"""Runs one program at a time and notes what else used the machine meanwhile."""

import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.path.join(HERE, "peers")
BUILD = os.environ["BENCH_BUILD"]
BIN = os.path.join(BUILD, "bin")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# A round during which others took more than this share of the machine does not count where a quieter one exists.
DISTURBED_PERCENT = 15
# Nor does one during which two cores took so many times longer to hand a cache line over than at the best moment of the run: the host
# of a guest moves its cores apart and together again, which changes what every program here can reach by a factor of three.
DISTANT = 3


@dataclass
class Measurement:
    bench: str
    peer: str
    workload: str
    metric: str
    value: float
    repetition: int
    others_percent: float
    stolen_percent: float
    handoff_ns: float


def kernel_ticks():
    """CPU ticks of kernel threads: they work for us as much as for others."""
    total = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[1] in ("2", "0") and entry != "1":
                total += int(fields[11]) + int(fields[12])
    return total


def machine_ticks():
    """(ticks of processes, stolen ticks, all ticks) of the machine so far."""
    kernel = kernel_ticks()
    with open("/proc/stat") as file:
        user, nice, system, idle, iowait, irq, soft, steal = (int(x) for x in file.readline().split()[1:9])
    return user + nice + system - kernel, steal, user + nice + system + idle + iowait + irq + soft + steal


def tree_ticks(root):
    """CPU ticks of a server and its children, those already reaped too."""
    total = 0
    to_do = [root] if root else []
    while to_do:
        pid = to_do.pop()
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                to_do += [int(x) for x in file.read().split()]
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12]) + (int(fields[13]) + int(fields[14]) if pid == root else 0)
    return total


def handoff_ns():
    """What it costs the machine's cores at present to hand a cache line over; see nocter/handoff.cpp."""
    if len(os.sched_getaffinity(0)) < 2:
        return 0.0
    return float(subprocess.run([os.path.join(BIN, "handoff")], capture_output=True, check=True, text=True).stdout)


def disturbed(measurement, nearest):
    """`nearest`: the shortest handoff of the run."""
    return measurement.others_percent > DISTURBED_PERCENT or measurement.handoff_ns > DISTANT * nearest


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def parse(line):
    """(bench, peer, workload, metric, value) of an output line, or None for any other text."""
    fields = line.split(",")
    if len(fields) != 5 or fields[0] not in ("A", "B", "C", "D", "E", "K", "R"):
        return None
    return (*fields[:4], float(fields[4]))


class Runner:
    def __init__(self, quiet_budget, verbose=False):
        self.measurements = []
        self.failed = []
        self.quiet_seconds_left = quiet_budget
        self.verbose = verbose
        self.nearest = float("inf")  # the shortest handoff so far
        self.server = None  # process id of a server that works for the programs

    def wait_quiet(self):
        """Waits while others use more than a tenth of the machine, at most 20 s, out of the budget."""
        start = time.monotonic()
        while self.quiet_seconds_left > 0 and time.monotonic() - start < 20:
            busy, _, every = machine_ticks()
            served = tree_ticks(self.server)
            time.sleep(0.25)
            busy_now, _, every_now = machine_ticks()
            others = busy_now - busy - (tree_ticks(self.server) - served)
            if others <= 0.10 * max(1, every_now - every):
                break
            self.quiet_seconds_left -= 0.25

    def run(self, repetition, argv, env=None, timeout=120, again=None, label=None):
        """One round of one program. When others were busy meanwhile, or the cores far apart, it is run again, at most twice and out
        of the same budget as waiting, and the quietest one is kept. `again` makes the server ready for another go."""
        best = None
        for attempt in range(3):
            if attempt and again:
                again()
            start = time.monotonic()
            got = self.once(repetition, argv, env, timeout)
            if best is None or (self.far(got), got[0]) < (self.far(best), best[0]):
                best = got
            if (best[0] <= DISTURBED_PERCENT and not self.far(best)) or self.quiet_seconds_left <= 0:
                break
            self.quiet_seconds_left -= time.monotonic() - start
        rows = best[2]
        for row in rows:
            if label:
                row.workload = label(row.workload)
        self.measurements += rows
        for row in rows if self.verbose else rows[:1]:
            print(
                f"# {repetition} {row.bench} {row.peer} {row.workload} {row.metric}={row.value:.6g}"
                f" [others {row.others_percent:.0f} %, stolen {row.stolen_percent:.0f} %, handoff {row.handoff_ns:.0f} ns]",
                flush=True,
            )

    def far(self, got):
        return got[1] > DISTANT * self.nearest

    def once(self, repetition, argv, env, timeout):
        """(percent of others, handoff, measurements)"""
        self.wait_quiet()
        handoff = handoff_ns()
        environment = dict(os.environ, NODE_NO_WARNINGS="1", **(env or {}))
        own_before = children_seconds()
        busy, stolen, every = machine_ticks()
        served = tree_ticks(self.server)
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: this program and its children
            out, err = process.communicate()
            err = "timed out\n" + err
        busy_now, stolen_now, every_now = machine_ticks()
        own = (children_seconds() - own_before) * TICKS_PER_SECOND + tree_ticks(self.server) - served
        others = 100.0 * max(0.0, busy_now - busy - own) / max(1, every_now - every)
        steal = 100.0 * (stolen_now - stolen) / max(1, every_now - every)
        if process.returncode != 0:
            self.failed.append((" ".join(argv), process.returncode, err.strip()[-300:]))
            print(f"# failed with {process.returncode}: {' '.join(argv)}\n#   {err.strip()[-300:]}", flush=True)
        handoff = (handoff, handoff_ns())
        self.nearest = min(self.nearest, *handoff)
        rows = [
            Measurement(*fields, repetition, others, steal, max(handoff))
            for fields in map(parse, out.splitlines())
            if fields is not None
        ]
        return others, max(handoff), rows
