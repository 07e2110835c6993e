#!/usr/bin/python3
"""gather URL-LIST [--workers N] [--closers N] [--open M] [--spool DIR]

Reads what every line of URL-LIST names (a path, file:///path, tcp://host:port, http://host/path; "-": the list comes on
standard input) to its end, and prints the CRC-32, the size and the URL, sorted by URL. With --spool a copy of what the
n-th line of the output names is kept in DIR.

Opening and reading block, and so does closing: fsync waits for the disk, close may wait for a server. So every source
needs a permit of a nocter retirement service before it is opened, M at most; the permit goes into a job of a blocking
service, N threads of which open and read; what comes back is the owner of what was opened, and giving that up queues it
for threads that do nothing but close. A close that takes its time holds up its own thread and one of the M places, and
nothing else. The main thread waits for both services at once, on one eventfd. Ctrl-C hands back what nobody has begun,
abandons what is being read, and closes what is open.
"""

import os
import re
import select
import signal
import sys
import threading
import time

import nocter
from gather_source import Problem, Reader, Source, Stopped, strerror

USAGE = b"usage: gather URL-LIST [--workers N] [--closers N] [--open M] [--spool DIR]\n"
MAXIMUM_THREADS, MAXIMUM_OPEN, DEFAULT_OPEN = 1024, 65536, 64
STOPS = (signal.SIGINT, signal.SIGTERM)


# ---- Standard output, standard error and the signals that end both ------------------------------------------------


class Console:
    def __init__(self):
        self.buffer, self.error = bytearray(), None
        self.caught = self.caught_time = 0  # the first SIGINT or SIGTERM
        self.raising = False  # whether it ends what the main thread does
        self.stop_reader, self.stop_writer = os.pipe2(os.O_CLOEXEC)  # written to to stop what is being read
        self.woken_reader, self.woken_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)  # by each signal
        self.writable = select.poll()
        self.writable.register(1, select.POLLOUT)
        self.writable.register(self.woken_reader, select.POLLIN)

    def close(self):
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)  # what is left takes no time
        signal.set_wakeup_fd(-1)
        for descriptor in (self.stop_reader, self.stop_writer, self.woken_reader, self.woken_writer):
            os.close(descriptor)

    def handle_signals(self):
        signal.set_wakeup_fd(self.woken_writer, warn_on_full_buffer=False)
        for number in STOPS:
            signal.signal(number, self.on_signal)

    def on_signal(self, number, _frame):
        """A later one does not wait for what is being closed; one that comes along with the first means the same."""
        now = time.monotonic()
        if self.caught and now - self.caught_time > 0.5:
            os._exit(128 + number)
        if not self.caught:
            self.caught, self.caught_time = number, now
        if self.raising:
            raise Stopped

    def stop(self):
        os.write(self.stop_writer, b"\0")

    def tell(self, text):
        while text:
            try:
                text = text[os.write(2, text) :]
            except OSError:
                return

    def flush(self):
        """After a signal only what can be written without waiting: nobody may be reading."""
        data = memoryview(bytes(self.buffer))
        self.buffer.clear()
        while data and self.error is None:
            ready = self.writable.poll(0 if self.caught else None)
            if not any(descriptor == 1 for descriptor, _ in ready):
                if self.caught:
                    return
                continue
            try:
                data = data[os.write(1, data[:4096]) :]
            except OSError as problem:
                self.error = problem

    def print(self, line):
        self.buffer += line
        if len(self.buffer) >= 32768:
            self.flush()

    def report(self, subject, reason):
        """"gather: SUBJECT: reason", after everything that was printed before it."""
        self.flush()
        if self.error is None:
            self.tell(b"gather: %s: %s\n" % (subject, reason))


class Worker(threading.Thread):
    """One of Python's own threads that claims jobs until the service is shut down."""

    def __init__(self, service, reader):
        super().__init__(daemon=True)
        self.service, self.reader = service, reader

    def run(self):
        while True:
            try:
                source, completion = self.service.claim().begin()
            except nocter.Closed:
                return
            with completion:
                self.reader.gather(source)
                completion.complete(source)


# ---- The main thread: starts, takes, prints -------------------------------------------------------------------------


class Gather:
    def __init__(self, console, sources, spool, workers, closers, maximum):
        self.console, self.sources, self.spool = console, sources, spool
        self.woken = nocter.EventFd()  # by both services
        self.retirement = nocter.Retirement(maximum, closers, waiters=self.woken)
        # One job for each thread waits: more would hold places without any use.
        self.blocking = nocter.Blocking(min(2 * workers, maximum), workers, waiters=self.woken)
        self.reader = Reader(console.stop_reader, spool)
        self.workers = [Worker(self.blocking, self.reader) for _ in range(workers)]
        self.closers_wanted, self.closers = closers, None
        self.spare = None  # a permit, reserved when the blocking service was full
        self.next = self.printed = self.jobs = 0
        self.closing = []  # retired and not taken: (identity, source), the first one first
        self.files = self.bytes = self.problems = 0
        self.stopping = False

    def start_more(self):
        """Neither epoch is waited for: the eventfd tells when a place may be free."""
        while self.next < len(self.sources) and not self.stopping:
            source = self.sources[self.next]
            try:
                source.permit = self.spare = self.spare or self.retirement.reserve()
                self.blocking.submit(source)
            except nocter.Saturated:  # nothing was taken over: the permit is for the next attempt
                source.permit = None
                return
            self.spare = None
            self.next += 1
            self.jobs += 1

    def finish_reading(self, source):
        """Its job has ended. What was opened for it is closed somewhere else, beginning now."""
        self.jobs -= 1
        source.read = source.ended
        if source.owner is not None:
            self.closing.append((source.owner.retire(), source))
            source.owner = None

    def take_closed(self):
        """Closing begins in the order of retirement: once more are pending than there are threads, so are all others."""
        kept, looked_at = [], 0
        for identity, source in self.closing:
            if len(kept) > self.closers_wanted:
                break
            looked_at += 1
            try:
                source.close_error = self.retirement.take(identity, 0)
            except nocter.Pending:
                kept.append((identity, source))
        self.closing[:looked_at] = kept

    def print_source(self, source):
        if source.problem is not None:
            self.console.report(source.url, source.problem)
            self.problems += 1
            return
        self.console.print(b"%08x %d %s\n" % (source.crc, source.size, source.url))
        self.bytes += source.size
        self.files += 1

    def print_read(self):
        """In order, as far as all before it have been read."""
        while self.printed < self.next and self.sources[self.printed].read:
            self.print_source(self.sources[self.printed])
            self.printed += 1
        self.console.flush()

    def stop(self):
        """Nothing new is begun, and what is being read is abandoned: it stops."""
        self.stopping = True
        if self.spare is not None:
            self.spare.close()
        queued = 0
        for was, source in self.blocking.shutdown():
            if was is nocter.JobState.QUEUED:
                queued += 1
                source.give_up()
            else:
                self.finish_reading(source)
        counts = self.blocking.count()
        self.jobs = 0
        self.console.stop()
        if self.console.caught:
            running = counts.abandoned + counts.abandoned_retired
            self.console.tell(b"gather: interrupted: %d running abandoned, %d queued handed back\n" % (running, queued))

    def gather_all(self):
        waiting = select.poll()
        waiting.register(self.woken.fileno(), select.POLLIN)
        waiting.register(self.console.woken_reader, select.POLLIN)
        while True:
            if not self.stopping and (self.console.caught or self.console.error is not None):
                waiting.unregister(self.console.woken_reader)
                self.stop()
            self.woken.clear()
            while not self.stopping:
                ended = self.blocking.completed()
                for job in ended:
                    self.finish_reading(self.blocking.take(job, 0))
                if not ended:
                    break
            self.take_closed()
            self.start_more()
            self.print_read()
            begun = self.stopping or self.next == len(self.sources)
            if begun and not self.jobs and not self.closing:
                return
            waiting.poll()  # what else ends it shows in the next round

    def shut_down(self):
        """First those who use it, then what they use. Afterwards nothing is open, and nothing is left in any service."""
        console = self.console
        if not self.stopping:
            self.stop()
        self.blocking.drained()
        for worker in self.workers:
            if worker.ident is not None:
                worker.join()
        for source in self.sources:
            source.give_up()  # of those that were abandoned
        self.retirement.detach_all()  # there is something only after a failure
        self.retirement.shutdown()
        if self.closers is None:
            self.retirement.close()
            return
        self.retirement.drained()
        counts = self.retirement.count()
        self.closers.stop()
        for source in self.sources[self.printed :]:
            if source.read:
                self.print_source(source)
        for source in self.sources:
            if source.close_error:
                console.report(source.url, b"close: " + strerror(source.close_error))
                self.problems += 1
        console.flush()
        if counts.failed_unobserved:
            console.tell(b"gather: %d of the abandoned could not be closed\n" % counts.failed_unobserved)
            self.problems += counts.failed_unobserved

    def run(self):
        console = self.console
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # they are the main thread's: the threads inherit this
            try:
                self.closers = self.retirement.serve(self.closers_wanted, name="gather")
                for worker in self.workers:
                    worker.start()
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            self.gather_all()
        finally:
            self.shut_down()
        if self.spool >= 0:
            try:
                os.fsync(self.spool)  # the names of the copies
            except OSError as problem:
                console.report(b"--spool", strerror(problem.errno))
                return 2
        if console.error is not None:
            console.tell(b"gather: standard output: %s\n" % strerror(console.error.errno))
            return 2
        console.tell(b"gather: %d sources, %d bytes, %d problems\n" % (self.files, self.bytes, self.problems))
        if console.caught:
            return 128 + console.caught
        return 1 if self.problems else 0


# ---- Arguments ------------------------------------------------------------------------------------------------------


class Usage(Exception):
    """What is wrong with the arguments."""


def number_of(option, text, maximum):
    if re.fullmatch(rb"0*[0-9]{1,5}", text) and 1 <= int(text) <= maximum:
        return int(text)
    raise Usage(b"%s must be a number from 1 to %d, not '%s'" % (option, maximum, text))


def parse(arguments):
    """(URL-LIST, DIR or None, workers, closers, open), or None for --help."""
    name, spool, numbers, options = None, None, {}, True
    limits = {b"--workers": MAXIMUM_THREADS, b"--closers": MAXIMUM_THREADS, b"--open": MAXIMUM_OPEN}
    rest = iter(arguments)
    for argument in rest:
        if not options or not argument.startswith(b"-") or argument == b"-":
            if name is not None:
                raise Usage(b"only one URL-LIST can be given")
            name = argument
            continue
        if argument == b"--help":
            return None
        if argument == b"--":
            options = False
            continue
        option, equals, value = argument.partition(b"=")
        if option not in limits and option != b"--spool":
            raise Usage(b"unknown option: " + argument)
        value = value if equals else next(rest, None)
        if value is None:
            raise Usage(option + b" needs a value")
        if option == b"--spool":
            spool = value
        else:
            numbers[option] = number_of(option, value, limits[option])
    if name is None:
        raise Usage(b"URL-LIST is missing")
    workers, closers, maximum = (numbers.get(option, 0) for option in limits)
    maximum = maximum or max(DEFAULT_OPEN, workers, closers)
    default = min(max(2, len(os.sched_getaffinity(0))), MAXIMUM_THREADS, maximum)
    workers, closers = workers or default, closers or default
    if maximum < workers:
        raise Usage(b"--open must be at least --workers")
    if maximum < closers:
        raise Usage(b"--open must be at least --closers")
    return name, spool, workers, closers, maximum


def read_list(name):
    """A source for each line that is neither blank nor a comment, sorted."""
    if name == b"-":
        text = sys.stdin.buffer.read()
    else:
        with open(name, "rb") as file:
            text = file.read()
    if b"\0" in text:
        raise Problem(b"not a list of URLs")
    lines = (line[:-1] if line.endswith(b"\r") else line for line in text.split(b"\n"))
    urls = sorted(line for line in lines if line and not line.startswith(b"#"))
    return [Source(url, number) for number, url in enumerate(urls, 1)]


def gather_list(console, name, spool_name, workers, closers, maximum):
    spool = -1
    try:
        console.raising = True
        sources = read_list(name)
        console.raising = False
        name = spool_name or name
        if spool_name is not None:
            try:
                os.mkdir(spool_name)
            except FileExistsError:
                pass
            spool = os.open(spool_name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except Stopped:
        return 128 + console.caught
    except OSError as problem:
        console.report(name, strerror(problem.errno))
        return 2
    except Problem as problem:
        console.report(name, problem.args[0])
        return 2
    try:
        return Gather(console, sources, spool, workers, closers, maximum).run()
    except RuntimeError as problem:  # a thread could not be made, or nocter could not do something
        console.tell(b"gather: %s\n" % os.fsencode(str(problem)))
        return 2
    finally:
        if spool >= 0:
            os.close(spool)


def main():
    # A descriptor that is closed would be given to the next file opened, and be written to.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open("/dev/null", os.O_RDWR)
    console = Console()
    try:
        parsed = parse([os.fsencode(argument) for argument in sys.argv[1:]])
    except Usage as problem:
        console.tell(b"gather: %s\n" % problem.args[0] + USAGE)
        return 2
    if parsed is None:
        console.print(USAGE)
        console.flush()
        if console.error is not None:
            console.tell(b"gather: standard output: %s\n" % strerror(console.error.errno))
        return 0 if console.error is None else 2
    console.handle_signals()
    try:
        return gather_list(console, *parsed)
    finally:
        console.close()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MemoryError:  # nothing useful can be done without, and the kernel frees everything at the end of the process
        os.write(2, b"gather: Cannot allocate memory\n")
        os._exit(2)
