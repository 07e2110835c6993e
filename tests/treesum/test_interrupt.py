"""Ctrl-C, the progress bar, and what valgrind finds."""

import os
import re
import signal
import time

import pytest

import trees
from programs import ROOT, WITHOUT_RIGHTS, wait_until_full, wait_until_reading

STOPPED = re.compile(rb"treesum: interrupted: (\d+) running abandoned, (\d+) queued handed back\r?\n"
                     rb"treesum: (\d+) files, (\d+) bytes, 0 problems\r?\n\Z")
BAR = re.compile(rb"\r\[(#*)(-*)\] +(\d+)% (\d+) files (\d+) bytes")


def left_of_session(session):
    """The processes, zombies too, that a program started in a session of its own has left."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rsplit(b")", 1)[1].split()[3]) == session:
                        found.append(name)
            except OSError:  # it ended meanwhile
                pass
    return found


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_blk_11_a_signal_hands_back_what_waits_and_abandons_what_runs(program, slow, number, status):
    process = program.start(slow, "--workers", "2", "--jobs", "8")
    wait_until_reading(process.pid, slow, 2)
    time.sleep(0.5)  # for the rest to be submitted: each file takes seconds
    before = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - before < 5  # there is work for minutes
    assert process.returncode == status
    stopped = STOPPED.search(err)
    assert stopped, err
    running, queued, files, size = map(int, stopped.groups())
    assert (running, queued, files, size) == (2, 6, 0, 0)
    assert out == b""
    assert left_of_session(process.pid) == []


def test_gen_07_a_second_signal_does_not_hang(program, slow, choices):
    process = program.start(slow)
    wait_until_reading(process.pid, slow, 1)
    for _ in range(choices.randint(2, 4)):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        time.sleep(choices.choice([0, 0.001, 0.01, 0.05]))
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in err and b"panicked" not in err


def test_gen_07_a_signal_also_ends_a_write_that_nobody_reads(program):
    process = program.start("/usr/include")
    wait_until_full(process.stdout)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert STOPPED.search(process.stderr.read())
    process.stdout.close()
    process.stderr.close()


def test_gen_07_ctrl_c_on_a_terminal(program, slow):
    terminal = program.on_terminal(slow)
    terminal.read_until(BAR)
    wait_until_reading(terminal.pid, slow, 1)
    terminal.press(b"\x03")
    status, seen = terminal.finish()
    assert status == 130
    assert STOPPED.search(seen), seen
    assert seen.rindex(b"\r\033[K") < seen.rindex(b"treesum: interrupted")  # the bar was erased
    assert seen.rindex(b"\r[") < seen.rindex(b"\r\033[K")


def test_bnd_02_a_terminal_gets_a_progress_bar_and_whole_lines(program, plain):
    begin = time.monotonic()
    status, seen = program.on_terminal(plain.root).finish()
    duration = time.monotonic() - begin
    assert status == 0
    bars = BAR.findall(seen)
    assert 1 <= len(bars) <= 10 * duration + 2
    for done, left, percent, _, _ in bars:
        assert len(done) + len(left) == 10
        assert len(done) == int(percent) // 10
    # Each bar is erased, or drawn over, before anything else is written: without them what a pipe gets is left.
    rest = re.sub(rb"(?:\r\[[#-]*\] +\d+% \d+ files \d+ bytes)+\r\033\[K", b"", seen).replace(b"\r\n", b"\n")
    assert rest == plain.merged


def test_bnd_02_the_bar_goes_to_stderr_and_moves(program, place):
    root = os.path.join(place, b"bar-" + program.language.encode())
    for number in range(12):  # a second or so of reading: several bars, also where it is fast
        trees.sparse(os.path.join(root, b"%d" % number), 300 << 20)
    read, write = os.pipe()
    terminal = program.on_terminal(root, "--workers=1", stdout=write)
    os.close(write)
    status, seen = terminal.finish()
    with os.fdopen(read, "rb") as reader:
        out = reader.read()
    assert status == 0
    assert out.count(b"\n") == 12 and b"\r" not in out and b"\033" not in out
    percents = [int(bar[2]) for bar in BAR.findall(seen)]
    assert percents == sorted(percents) and len(set(percents)) >= 3
    assert percents[0] < 50 and percents[-1] <= 100


def test_bnd_02_a_pipe_gets_no_bar(program, plain):
    status, out, err = program.run(plain.root)
    assert status == 0
    assert b"\r" not in out + err and b"\033" not in out + err


VALGRIND = ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible",
            "--error-exitcode=99"]


def no_leak(err):
    """valgrind remarks on a system call that it does not know (the library then goes on without it), and on nothing else."""
    remarks = [line for line in err.splitlines() if line.startswith((b"==", b"--"))]
    known = (b"unhandled amd64-linux syscall", b"your own handler", b"README_MISSING", b"consider this a bug", b"bug_reports")
    return [line for line in remarks if not any(word in line for word in known)] == []


def test_gen_01_nothing_leaks_in_c(program_of, plain):
    status, out, err = program_of("c").run(plain.root, "--jobs", "3", "--workers", "2", before=VALGRIND)
    assert (status, out) == (0, plain.out)
    assert no_leak(err), err


def test_gen_01_nothing_leaks_in_c_whatever_goes_wrong(program_of, tricky):
    program = program_of("c")
    status, out, err = program.run(tricky.root, before=[*WITHOUT_RIGHTS, *VALGRIND])
    assert (status, out) == (1, tricky.out)
    assert no_leak(err), err
    with open("/dev/full", "wb") as full:
        status, _, err = program.run(os.path.join(ROOT, "cpp"), before=VALGRIND, stdout=full)
    assert status == 2 and no_leak(err), err
    status, _, err = program.run("--workers=x", before=VALGRIND)
    assert status == 2 and no_leak(err), err


def test_gen_01_nothing_leaks_in_c_after_ctrl_c(program_of, slow):
    process = program_of("c").start(slow, "--workers", "2", "--jobs", "8", before=VALGRIND)
    wait_until_reading(process.pid, slow, 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert no_leak(err), err
    assert b"treesum: interrupted: 2 running abandoned, 6 queued handed back" in err
