"""A close that blocks, Ctrl-C, and what is left behind: nothing."""

import os
import re
import signal
import subprocess
import time

import pytest

from programs import ROOT, open_files, soon, wait_until_full

STOPPED = re.compile(rb"gather: interrupted: (\d+) running abandoned, (\d+) queued handed back\n"
                     rb"gather: (\d+) sources, (\d+) bytes, 0 problems\n\Z")


class Place:
    """Small files in one folder, some of which are slow to close; a list of all; and the gate they wait for."""

    def __init__(self, folder, library, slow, quick):
        self.folder, self.library = folder, library
        self.files = [folder / f"{number:04}.slow" for number in range(slow)]
        self.files += [folder / f"{number + slow:04}.quick" for number in range(quick)]
        for path in self.files:
            path.write_bytes(b"content of " + bytes(path))
        self.list, self.seen, self.gate = folder / "list", folder / "seen", folder / "gate"
        self.list.write_bytes(b"\n".join(map(bytes, self.files)))
        self.seen.touch()
        os.mkfifo(self.gate)

    def start(self, program, *arguments):
        environment = dict(os.environ, LD_PRELOAD=str(self.library), GATHER_SEEN=self.seen, GATHER_GATE=self.gate)
        return program.start(self.list, *arguments, env=environment)

    def closing(self):
        """How many slow files somebody has begun to close."""
        return self.seen.read_bytes().count(b"\n")

    def open_by(self, process):
        return sorted(name for name in open_files(process.pid) if name.endswith((b".slow", b".quick")))

    def let_close(self):
        """From now on nothing is slow."""
        return os.open(self.gate, os.O_RDWR)


@pytest.fixture
def place(tmp_path, slow_close):
    return lambda slow, quick: Place(tmp_path, slow_close, slow, quick)


def test_ret_01_a_close_that_blocks_holds_up_nothing_else(program, place):
    """Scenario of a server that does not answer: one of two closers is lost for as long, and one of four places."""
    here = place(slow=1, quick=400)
    process = here.start(program, "--closers=2", "--open=4", "--workers=2")
    lines = [process.stdout.readline() for _ in here.files]  # all are read, and told of
    assert [line.split()[2] for line in lines] == [bytes(path) for path in here.files]
    soon(lambda: here.open_by(process) == [bytes(here.files[0])], "all others closed")
    assert here.closing() == 1 and process.poll() is None
    gate = here.let_close()
    assert process.communicate(timeout=30)[0] == b"" and process.returncode == 0
    os.close(gate)


def test_ret_04_what_is_not_closed_keeps_its_place(program, place):
    """When all who close are blocked, reading goes on until the places are gone, and then waits. One worker: in order."""
    here = place(slow=2, quick=50)
    process = here.start(program, "--closers=2", "--open=7", "--workers=1")
    lines = [process.stdout.readline() for _ in range(7)]
    assert [line.split()[2] for line in lines] == [bytes(path) for path in here.files[:7]]
    soon(lambda: here.closing() == 2, "both begun")
    time.sleep(0.2)  # for an eighth, if there could be one
    assert here.open_by(process) == [bytes(path) for path in here.files[:7]]
    gate = here.let_close()
    assert process.communicate(timeout=30)[0].count(b"\n") == 45 and process.returncode == 0
    os.close(gate)


def test_ret_08_ctrl_c_waits_for_what_is_being_closed(program, place):
    """R-27 and the order of teardown: jobs first, then retirement; what was read is closed and synced, and told of."""
    here = place(slow=3, quick=0)
    process = here.start(program, "--closers=1", "--open=2", "--workers=1", "--spool", here.folder / "spool")
    soon(lambda: here.closing() == 1, "begun")
    lines = [process.stdout.readline() for _ in range(2)]  # so the third has no place
    process.send_signal(signal.SIGINT)
    told = process.stderr.readline()
    assert told == b"gather: interrupted: 0 running abandoned, 0 queued handed back\n"
    assert process.poll() is None and len(here.open_by(process)) == 2
    gate = here.let_close()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert re.fullmatch(rb"gather: 2 sources, \d+ bytes, 0 problems\n", err)
    for number, line in enumerate(lines, 1):
        assert (here.folder / "spool" / f"{number:06}").read_bytes() == b"content of " + line.split()[2]
    os.close(gate)


def test_ret_08_a_later_ctrl_c_does_not_wait(program, place):
    here = place(slow=1, quick=0)
    process = here.start(program)
    soon(lambda: here.closing() == 1, "begun")
    process.send_signal(signal.SIGINT)
    process.stderr.readline()  # it has understood the first
    time.sleep(0.6)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def fifos(folder, count):
    """Sources that never end, and never begin: nobody writes to them."""
    paths = [folder / f"fifo{number}" for number in range(count)]
    for path in paths:
        os.mkfifo(path)
    (folder / "list").write_bytes(b"\n".join(map(bytes, paths)))
    return folder / "list"


def wait_until_reading(process, count):
    soon(lambda: sum(b"/fifo" in name for name in open_files(process.pid)) == count, f"{count} being read")


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ret_08_a_signal_hands_back_permits_and_abandons_what_is_read(program, tmp_path, number, status):
    """Four of ten are admitted to the blocking service with two workers; a fifth permit has no job yet."""
    process = program.start(fifos(tmp_path, 10), "--workers=2", "--open=8")
    wait_until_reading(process, 2)
    time.sleep(0.3)  # for the rest to be submitted
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == status
    assert STOPPED.fullmatch(err).groups() == (b"2", b"2", b"0", b"0")
    assert out == b""


def test_gen_07_ctrl_c_ends_a_list_that_does_not_end_and_an_output_that_nobody_reads(program, tmp_path):
    process = program.start(fifos(tmp_path, 1).parent / "fifo0")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == b"" and process.returncode == 130

    (tmp_path / "long").write_bytes(b"/dev/null\n" * 20000)
    process = program.start(tmp_path / "long")
    wait_until_full(process.stdout)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert b"gather: interrupted" in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


VALGRIND = ["valgrind", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible",
            "--track-fds=yes", "--error-exitcode=99"]


def left_open(err):
    """What valgrind found open at the end and not given to the program by who started it."""
    found = re.findall(rb"==\d+== Open file descriptor \d+:[^\n]*\n==\d+==    ([^\n]*)", err)
    return [how for how in found if b"inherited" not in how]


def test_gen_01_nothing_leaks_in_c(programs, servers, tmp_path):
    urls = [b"tcp://127.0.0.1:%d" % servers.raw, b"http://127.0.0.1:%d/short" % servers.http, b"/missing",
            *(os.fsencode(os.path.join(ROOT, "capi/include/nocter", name)) for name in os.listdir(
                os.path.join(ROOT, "capi/include/nocter")))]
    (tmp_path / "list").write_bytes(b"\n".join(urls))
    status, out, err = programs["c"].run(tmp_path / "list", "--spool", tmp_path / "spool", before=VALGRIND)
    assert (status, out.count(b"\n")) == (1, len(urls) - 2), err
    assert b"FILE DESCRIPTORS" in err and left_open(err) == [], err


def test_gen_01_nothing_leaks_in_c_after_ctrl_c(programs, tmp_path):
    process = programs["c"].start(fifos(tmp_path, 10), "--workers=2", "--open=8", before=VALGRIND)
    wait_until_reading(process, 2)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"2 running abandoned, 2 queued handed back" in err
    assert b"FILE DESCRIPTORS" in err and left_open(err) == [], err


def test_gen_01_the_sanitizers_find_nothing_in_c(tmp_path):
    build, headers = os.environ["NOCTER_LIB_DIR"], os.path.join(ROOT, "capi/include")
    subprocess.run(["cc", "-std=c11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{headers}",
                    os.path.join(ROOT, "capi/examples/gather.c"), "-o", tmp_path / "gather", f"-L{build}", "-lnocter",
                    "-lz", "-pthread"], check=True)
    (tmp_path / "real").write_bytes(b"\n".join(os.path.join(os.fsencode(headers), b"nocter", name) for name in os.listdir(
        os.path.join(os.fsencode(headers), b"nocter"))))
    done = subprocess.run([tmp_path / "gather", tmp_path / "real", "--spool", tmp_path / "spool"], timeout=60, check=False,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    process = subprocess.Popen([tmp_path / "gather", fifos(tmp_path, 10), "--workers=2"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    wait_until_reading(process, 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and STOPPED.fullmatch(err), err


def test_gen_01_no_descriptor_is_left_when_only_the_last_close_is(program, place):
    """Before it ends, in either language: standard ones, the notifier's, the pipes of the main thread, and the slow one."""
    here = place(slow=1, quick=200)
    process = here.start(program, "--workers=3", "--spool", here.folder / "spool")
    assert b"" not in [process.stdout.readline() for _ in here.files]
    soon(lambda: here.open_by(process) == [bytes(here.files[0])], "all others closed")
    soon(lambda: here.closing() == 1, "begun")
    files = [name for name in open_files(process.pid) if name.startswith(bytes(here.folder))]
    assert sorted(files) == sorted([bytes(here.files[0]), bytes(here.folder / "spool")])
    assert sum(name.startswith(b"socket:") for name in open_files(process.pid)) == 0
    gate = here.let_close()
    process.communicate(timeout=30)
    assert process.returncode == 0
    os.close(gate)
