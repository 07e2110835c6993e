#!/usr/bin/python3
"""treesum DIR [--workers N] [--jobs M]

Prints the CRC-32, the size and the path of every regular file below DIR, in bytewise order of the paths.

Reading files blocks, so it is done by N threads that claim jobs of a nocter blocking service. The main thread walks
the tree, submits one job a file and takes the results in the same order; at most M jobs are out at any time, so the
memory needed is that of M jobs and of the directories on the current path, however large the tree is. Ctrl-C raises
an interrupt that the main thread's waits carry: it shuts the service down, which hands back what nobody has begun and
abandons what runs; the running jobs notice between two reads and stop.
"""

import os
import re
import select
import signal
import stat
import sys
import threading
import time
import zlib
from collections import deque

import nocter

USAGE = b"usage: treesum DIR [--workers N] [--jobs M]\n"
MAXIMUM_WORKERS, MAXIMUM_JOBS = 1024, 65536
CHUNK = 256 * 1024
REDRAW_SECONDS = 0.1
NAME_PROBLEM = b"name is not UTF-8"
STOPS = (signal.SIGINT, signal.SIGTERM)


def escaped(path):
    """A path so that it fits in one line: as sha256sum writes it, without the mark in front."""
    return path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")


def reason_of(problem):
    return os.fsencode(os.strerror(problem.errno))


def is_utf8(name):
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def out_of_memory():
    """Nothing useful can be done without memory, and the kernel frees everything at the end of the process."""
    os.write(2, b"treesum: Cannot allocate memory\n")
    os._exit(2)


class Console:
    """Standard output, standard error and the signals that end both."""

    def __init__(self):
        self.buffer, self.error = bytearray(), None
        self.terminal, self.bar_wanted = os.isatty(1), os.isatty(2)
        self.part = 65536 if stat.S_ISREG(os.fstat(1).st_mode) else 4096  # what a pipe that is ready takes at once
        self.bar_drawn, self.bar_time = False, 0.0
        self.caught = 0  # the first SIGINT or SIGTERM
        self.interrupt = nocter.Interrupt()
        self.woken = select.poll()
        self.woken.register(1, select.POLLOUT)

    def handle_signals(self):
        # Python begins an interrupted write again, so a write whose reader is away is ended by this pipe.
        wake_reader, wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        self.woken.register(wake_reader, select.POLLIN)
        for number in STOPS:
            signal.signal(number, self.on_signal)

    def on_signal(self, number, _frame):
        self.caught = self.caught or number
        self.interrupt.raise_()

    def tell(self, text):
        while text:
            try:
                text = text[os.write(2, text) :]
            except OSError:
                return

    def erase_bar(self):
        if self.bar_drawn:
            self.tell(b"\r\033[K")
            self.bar_drawn = False

    def flush(self):
        """After a signal only what can be written without waiting: nobody may be reading."""
        if self.terminal:
            self.erase_bar()
        data = memoryview(bytes(self.buffer))
        self.buffer.clear()
        while data and self.error is None:
            ready = self.woken.poll(0 if self.caught else None)
            if not any(descriptor == 1 for descriptor, _ in ready):
                if self.caught:
                    return
                continue
            try:
                data = data[os.write(1, data[: self.part]) :]
            except OSError as problem:
                self.error = problem

    def print(self, line):
        self.buffer += line
        if self.terminal or len(self.buffer) >= 65536:
            self.flush()

    def report(self, path, reason):
        """"treesum: PATH: reason", after everything that was printed before it."""
        self.flush()
        if self.error is None:
            self.erase_bar()
            self.tell(b"treesum: %s: %s\n" % (escaped(path), reason))

    def draw_bar(self, total, done, files):
        now = time.monotonic()
        if now - self.bar_time < REDRAW_SECONDS:
            return
        percent = done * 100 // total if done < total else 100
        bar = b"#" * (percent // 10) + b"-" * (10 - percent // 10)
        self.tell(b"\r[%s] %3d%% %d files %d bytes" % (bar, percent, files, done))
        self.bar_drawn, self.bar_time = True, now


# ---- The walk ---------------------------------------------------------------------------------------------------


def read_level(root, path):
    """The names in a directory, sorted with a '/' behind those of directories: so the paths below them are in order.

    Second, the error that kept it from being read, or from being read whole. A link that took the directory's place is
    not followed, and nothing stays open.
    """
    names = []
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, dir_fd=root) if path else os.dup(root)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    names.append(os.fsencode(entry.name) + (b"/" if is_directory(entry) else b""))
        finally:
            os.close(descriptor)
    except OSError as problem:
        return sorted(names), problem
    return sorted(names), None


def is_directory(entry):
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def walk(root):
    """Pairs of a path and a problem: None for what a job has to look at. It does not recurse: a tree may be deep."""
    names, problem = read_level(root, b"")
    if problem:
        yield b"", reason_of(problem)
    levels = [(b"", iter(names))]
    while levels:
        prefix, names = levels[-1]
        name = next(names, None)
        if name is None:
            levels.pop()
        elif not name.endswith(b"/"):
            yield prefix + name, None
        else:
            path = prefix + name[:-1]
            inner, problem = read_level(root, path)
            if not is_utf8(name):
                yield path, NAME_PROBLEM
            if problem:
                yield path, reason_of(problem)
            levels.append((path + b"/", iter(inner)))


# ---- The job: sums one file, on a thread that claimed it ----------------------------------------------------------

KINDS = {
    stat.S_IFIFO: b"not a regular file: FIFO",
    stat.S_IFSOCK: b"not a regular file: socket",
    stat.S_IFCHR: b"not a regular file: character device",
    stat.S_IFBLK: b"not a regular file: block device",
}


class Sum:
    """What came out of a job: a sum, or a problem, or neither for a link to a directory."""

    def __init__(self, crc=None, size=0, problem=None):
        self.crc, self.size, self.problem = crc, size, problem


class Worker(threading.Thread):
    """One of Python's own threads that claims jobs until the service is shut down."""

    def __init__(self, service, root):
        super().__init__(daemon=True)
        self.service, self.root = service, root
        self.buffer = memoryview(bytearray(CHUNK))
        self.bytes_read = 0

    def run(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # they are the main thread's
        while True:
            try:
                path, completion = self.service.claim().begin()
            except nocter.Closed:
                return
            try:
                with completion:  # what is not completed here is a worker lost
                    completion.complete(self.sum_file(path, completion))
            except MemoryError:
                out_of_memory()

    def sum_file(self, path, completion):
        try:
            # Asked before it is opened: opening a device or a FIFO is felt at its other end.
            before = os.stat(path, dir_fd=self.root)
            if stat.S_ISDIR(before.st_mode):
                return Sum()
            if not stat.S_ISREG(before.st_mode):
                return Sum(problem=KINDS[stat.S_IFMT(before.st_mode)])
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            file = os.open(path, flags, dir_fd=self.root)
            try:
                return self.read_file(file, before, completion)
            finally:
                os.close(file)
        except OSError as problem:
            return Sum(problem=reason_of(problem))

    def read_file(self, file, before, completion):
        crc = size = 0
        # One that grows as fast as it is read must end too.
        while size <= before.st_size and not completion.abandoned:
            count = os.readv(file, [self.buffer])
            if count == 0:
                break
            crc = zlib.crc32(self.buffer[:count], crc)
            size += count
            self.bytes_read += count
        after = os.fstat(file)
        same = ("st_dev", "st_ino", "st_size", "st_mtime_ns")
        if size != before.st_size or any(getattr(before, name) != getattr(after, name) for name in same):
            return Sum(problem=b"changed while it was read")
        return Sum(crc, size)


# ---- The main thread: submits in order, takes in order -------------------------------------------------------------


class Summing:
    def __init__(self, console, name, root, workers, jobs):
        self.console, self.name, self.root, self.jobs = console, name, root, jobs
        self.service = nocter.Blocking(maximum_jobs=jobs, workers=workers)
        self.workers = [Worker(self.service, root) for _ in range(workers)]
        self.ring = deque()  # (path, problem or None, job), the oldest first
        self.files = self.bytes = self.problems = self.total_bytes = 0

    def going_on(self):
        return not self.console.caught and self.console.error is None

    def count_problem(self, path, reason):
        self.console.report(path, reason)
        self.problems += 1

    def print_outcome(self, path, outcome):
        if outcome.crc is None and outcome.problem is None:
            return
        if not is_utf8(path.rpartition(b"/")[2]):
            self.count_problem(path, NAME_PROBLEM)
        if outcome.problem is not None:
            self.count_problem(path, outcome.problem)
            return
        text = escaped(path)
        mark = b"" if text == path else b"\\"
        self.console.print(b"%s%08x %d %s\n" % (mark, outcome.crc, outcome.size, text))
        self.files += 1
        self.bytes += outcome.size

    def draw_bar(self):
        if not self.console.bar_wanted:
            return
        done = sum(worker.bytes_read for worker in self.workers)
        self.console.draw_bar(self.total_bytes, done, self.files)

    def take(self, job, waiting):
        """The outcome of a job. Pending or Interrupted when it has not ended."""
        self.draw_bar()
        while waiting and self.console.bar_wanted:
            try:
                return self.service.take(job, REDRAW_SECONDS, self.console.interrupt)
            except nocter.Timeout:
                self.draw_bar()
        return self.service.take(job, None if waiting else 0, self.console.interrupt if waiting else None)

    def finish_oldest(self, waiting):
        """Prints the oldest entry once its job has ended, waiting for that if told so. False when it has not ended."""
        path, problem, job = self.ring[0]
        if problem is not None:
            self.count_problem(path or self.name, problem)
        else:
            try:
                self.print_outcome(path, self.take(job, waiting))
            except nocter.WorkerLost:
                self.count_problem(path, b"worker lost")
            except (nocter.Pending, nocter.Interrupted):
                return False
        self.ring.popleft()
        return True

    def submit(self, path):
        # The epoch of Saturated is not waited for: taking the oldest result is what frees a place here.
        while True:
            try:
                return self.service.submit(path)
            except nocter.Saturated:
                if not self.finish_oldest(waiting=True):
                    return None

    def sum_tree(self):
        for path, problem in walk(self.root):
            while len(self.ring) == self.jobs and self.going_on():
                self.finish_oldest(waiting=True)
            job = self.submit(path) if problem is None and self.going_on() else None
            if not self.going_on():
                return
            self.ring.append((path, problem, job))
            while self.ring and self.going_on() and self.finish_oldest(waiting=False):
                pass
        while self.ring and self.going_on():
            self.finish_oldest(waiting=True)

    def count_tree(self):
        """What the progress bar calls 100 %."""
        for path, problem in walk(self.root):
            if not self.going_on():
                return
            try:
                status = os.stat(path, dir_fd=self.root) if problem is None else None
            except OSError:
                continue
            if status and stat.S_ISREG(status.st_mode):
                self.total_bytes += status.st_size

    def shut_down(self, stopped_by):
        """Nothing new is begun, what runs is abandoned and waited for. Another Ctrl-C ends the wait and the process."""
        console = self.console
        console.interrupt.clear()
        queued = sum(was is nocter.JobState.QUEUED for was, _ in self.service.shutdown())
        counts = self.service.count()
        if stopped_by:
            running = counts.abandoned + counts.abandoned_retired
            console.tell(b"treesum: interrupted: %d running abandoned, %d queued handed back\n" % (running, queued))
        try:
            self.service.drained(interrupt=console.interrupt)
        except nocter.Interrupted:
            os._exit(128 + console.caught)
        for worker in self.workers:
            if worker.ident is not None:
                worker.join()

    def run(self):
        console = self.console
        console.handle_signals()
        try:
            for worker in self.workers:
                worker.start()
            if console.bar_wanted:
                self.count_tree()
            self.sum_tree()
            console.flush()
            console.erase_bar()
        finally:
            stopped_by = console.caught
            self.shut_down(stopped_by)
            for number in STOPS:
                signal.signal(number, signal.SIG_IGN)  # what is left takes no time
        if console.error is not None:
            console.tell(b"treesum: standard output: %s\n" % reason_of(console.error))
            return 2
        console.tell(b"treesum: %d files, %d bytes, %d problems\n" % (self.files, self.bytes, self.problems))
        if stopped_by:
            return 128 + stopped_by
        return 1 if self.problems else 0


# ---- Arguments -----------------------------------------------------------------------------------------------------


class Usage(Exception):
    """What is wrong with the arguments."""


def number_of(option, text, maximum):
    """ASCII digits only; what has more than enough of them is too large without being read."""
    if re.fullmatch(rb"0*[0-9]{1,5}", text) and 1 <= int(text.lstrip(b"0") or b"0") <= maximum:
        return int(text.lstrip(b"0"))
    raise Usage(b"%s must be a number from 1 to %d, not '%s'" % (option, maximum, escaped(text)))


def parse(arguments):
    """(DIR, workers, jobs), or None for --help."""
    name, numbers, options = None, {}, True
    limits = {b"--workers": MAXIMUM_WORKERS, b"--jobs": MAXIMUM_JOBS}
    rest = deque(arguments)
    while rest:
        argument = rest.popleft()
        option, equals, value = argument.partition(b"=")
        if not options or not argument.startswith(b"-") or argument == b"-":
            if name is not None:
                raise Usage(b"only one DIR can be given")
            name = argument
        elif argument == b"--":
            options = False
        elif argument == b"--help":
            return None
        elif option in limits:
            if not equals and not rest:
                raise Usage(option + b" needs a number")
            numbers[option] = number_of(option, value if equals else rest.popleft(), limits[option])
        else:
            raise Usage(b"unknown option: " + escaped(argument))
    if name is None:
        raise Usage(b"DIR is missing")
    workers, jobs = numbers.get(b"--workers"), numbers.get(b"--jobs")
    if workers is None:
        workers = min(max(2, len(os.sched_getaffinity(0))), MAXIMUM_WORKERS, jobs or MAXIMUM_WORKERS)
    jobs = jobs or 4 * workers
    if jobs < workers:
        raise Usage(b"--jobs must be at least --workers")
    return name, workers, jobs


def hold_standard_descriptors():
    """A descriptor that is closed would be given to the next file opened, and be written to."""
    complete = True
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            complete = complete and descriptor != 1
            os.open("/dev/null", os.O_RDWR)
    return complete


def main():
    complete = hold_standard_descriptors()
    console = Console()
    if not complete:
        console.tell(b"treesum: standard output: Bad file descriptor\n")
        return 2
    try:
        parsed = parse([os.fsencode(argument) for argument in sys.argv[1:]])
    except Usage as problem:
        console.tell(b"treesum: %s\n" % problem.args[0] + USAGE)
        return 2
    if parsed is None:
        console.print(USAGE)
        console.flush()
        if console.error is not None:
            console.tell(b"treesum: standard output: %s\n" % reason_of(console.error))
        return 0 if console.error is None else 2
    name, workers, jobs = parsed
    try:
        root = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        console.report(name, reason_of(problem))
        return 2
    try:
        return Summing(console, name, root, workers, jobs).run()
    except RuntimeError as problem:  # a thread could not be made, or nocter could not do something
        console.tell(b"treesum: %s\n" % os.fsencode(str(problem)))
        return 2
    finally:
        os.close(root)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MemoryError:
        out_of_memory()
