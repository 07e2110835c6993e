"""Running treesum: with pipes, on a terminal, without the rights that root has over files."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LANGUAGES = ["c", "python", "rust"]
USAGE = b"usage: treesum DIR [--workers N] [--jobs M]\n"
LIMIT_SECONDS = 120

# What makes root read files that their modes forbid.
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


class Program:
    """One of the three, and how it is called."""

    def __init__(self, language, command):
        self.language = language
        self.command = command

    def __repr__(self):
        return f"treesum in {self.language}"

    def run(self, *arguments, before=(), **options):
        """Runs it to its end with pipes: (exit status, stdout, stderr)."""
        options.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run([*before, *self.command, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=LIMIT_SECONDS, check=False, **options)
        return done.returncode, done.stdout, done.stderr

    def start(self, *arguments, before=(), **options):
        """Starts it with pipes, in a session of its own."""
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.Popen([*before, *self.command, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                start_new_session=True, **options)

    def on_terminal(self, *arguments, stdout=None):
        """Starts it on a terminal of its own, with stdout there too unless a descriptor is given."""
        return Terminal([*self.command, *arguments], stdout)


class Terminal:
    """A program whose stdin and stderr are a terminal."""

    def __init__(self, command, stdout):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                if stdout is not None:
                    os.dup2(stdout, 1)
                os.execvp(command[0], command)
            finally:
                os._exit(127)
        self.seen = b""

    def press(self, keys):
        os.write(self.master, keys)

    def read_until(self, pattern):
        """Everything up to the first match; an assertion when it does not come."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not re.search(pattern, self.seen):
            assert self._read(deadline), f"{pattern} did not come: {self.seen!r}"

    def finish(self):
        """Reads to the end: (exit status, everything that was written)."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while self._read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status), self.seen

    def _read(self, deadline):
        ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"still running after {LIMIT_SECONDS} s: {self.seen!r}")
        try:
            part = os.read(self.master, 65536)
        except OSError:  # the other side of a terminal was closed
            part = b""
        self.seen += part
        return part != b""


def wait_until_full(pipe):
    """Until nothing more came into the pipe for a second: how much fits depends on the sizes of the writes."""
    waiting = -1
    while True:
        before = waiting
        waiting = int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
        if waiting == before and waiting > 0:
            return
        time.sleep(1)


def soon(condition, what, seconds=30):
    """Waits until the condition gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def open_files(pid):
    """What the descriptors of a process point to."""
    found = []
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(os.fsencode(f"{folder}/{name}")))
        except OSError:  # closed meanwhile
            pass
    return found


def wait_until_reading(pid, tree, count):
    """Until the process has so many files below the tree open."""
    soon(lambda: sum(path.startswith(tree + b"/") for path in open_files(pid)) >= count, f"{count} files being read")
