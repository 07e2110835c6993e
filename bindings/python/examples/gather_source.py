"""The sources of gather: opening what a URL names, reading it to its end, and closing it.

Opening and reading run on threads that claim jobs of the blocking service, closing on those of the retirement service.
"""

import errno
import os
import re
import select
import socket
import zlib

CHUNK, HEAD_SIZE = 64 * 1024, 16 * 1024
NO_URL = b"not a URL of a known kind"


def strerror(number):
    return os.fsencode(os.strerror(number))


class Problem(Exception):
    """Why a source could not be read."""


class Stopped(Exception):
    """Ctrl-C, while it was read."""


class Opened:
    """What retirement closes."""

    def __init__(self, source):
        self.input, self.spool = source, -1
        self.whole = False  # what is in the spool is worth the wait for the disk

    def close(self):
        """The first errno, or 0: the code of the cleanup."""
        error = 0
        for call, descriptor in ((os.fsync, self.spool if self.whole else -1), (os.close, self.spool), (os.close, self.input)):
            try:
                if descriptor >= 0:
                    call(descriptor)
            except OSError as problem:
                error = error or problem.errno
        return error


class Source:
    """One line of the list. The job that reads it owns it; before and after that it is the main thread's."""

    def __init__(self, url, number):
        self.url, self.number = url, number
        self.permit = None  # until it is open: the place where its closing will be queued
        self.owner = None  # from then on
        self.crc = self.size = self.close_error = 0
        self.ended = False  # by the end or a problem; False: it was stopped
        self.read = False  # the same, once its job was taken
        self.problem = None

    def give_up(self):
        """Whatever it still holds: the place is free, now or once the source is closed."""
        for held in (self.permit, self.owner):
            if held is not None and not held.closed:
                held.close()
        self.permit = self.owner = None


class Reader:
    """Reads one source after the other. Nothing waits without also waiting for `stop`, but looking up a host."""

    def __init__(self, stop, spool):
        self.stop, self.spool = stop, spool

    def gather(self, source):
        """What could not be read whole leaves no spool file."""
        name = b"%06d" % source.number
        try:
            self.read_source(source, name)
            source.ended = source.owner.value.whole = True
        except Stopped:
            pass
        except Problem as problem:
            source.problem, source.ended = problem.args[0], True
        except OSError as problem:
            source.problem, source.ended = strerror(problem.errno), True
        if (source.problem or not source.ended) and source.owner and source.owner.value.spool >= 0:
            os.unlink(name, dir_fd=self.spool)
        if source.permit is not None:
            source.permit.close()  # nothing was opened: the place goes back at once
            source.permit = None

    def ready(self, descriptor, events):
        waiting = select.poll()
        waiting.register(self.stop, select.POLLIN)
        waiting.register(descriptor, events)
        if any(found == self.stop for found, _ in waiting.poll()):
            raise Stopped

    # Opening: the permit becomes the owner.

    def opened(self, source, descriptor, name):
        resource = Opened(descriptor)
        source.owner, source.permit = source.permit.attach(resource, resource.close), None
        if self.spool >= 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY | os.O_CLOEXEC
            resource.spool = os.open(name, flags, 0o666, dir_fd=self.spool)

    def open_file(self, source, path, name):
        """Without waiting for the writer of a FIFO: reading waits for that."""
        self.opened(source, os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), name)

    def connect(self, host, port):
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as problem:
            raise Problem(os.fsencode(problem.strerror)) from None
        for family, kind, _, _, address in addresses:
            try:
                with socket.socket(family, kind | socket.SOCK_NONBLOCK) as connection:
                    error = connection.connect_ex(address)
                    if error == errno.EINPROGRESS:
                        self.ready(connection.fileno(), select.POLLOUT)
                        error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if error == 0:
                        return connection.detach()
            except OSError as problem:
                error = problem.errno
        raise OSError(error, "")

    def open_socket(self, source, place, port, name):
        """"host:port", "[address]:port", or without the port if there is a default."""
        found = re.fullmatch(rb"(?:\[([^]]+)\]|([^:\[][^:]*))(?::(.+))?", place, re.S)
        port = (found[3] or port) if found else None
        if port is None:
            raise Problem(NO_URL)
        self.opened(source, self.connect(found[1] or found[2], port), name)

    # Reading to the end.

    def read_some(self, source, capacity):
        descriptor = source.owner.value.input
        while True:
            self.ready(descriptor, select.POLLIN)
            try:
                return os.read(descriptor, capacity)
            except BlockingIOError:
                pass

    def keep(self, source, data):
        source.crc = zlib.crc32(data, source.crc)
        source.size += len(data)
        spool, data = source.owner.value.spool, memoryview(data)
        while spool >= 0 and data:
            data = data[os.write(spool, data) :]

    def read_rest(self, source):
        while True:
            data = self.read_some(source, CHUNK)
            if not data:
                return
            self.keep(source, data)

    def read_answer(self, source, host, path):
        """HTTP/1.0: the content ends with the connection."""
        request = b"GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path, host)
        if len(request) >= HEAD_SIZE:
            raise Problem(NO_URL)
        try:
            asked = os.write(source.owner.value.input, request) == len(request)
        except OSError:
            asked = False
        if not asked:
            raise Problem(b"cannot be asked")
        head = b""
        while b"\r\n\r\n" not in head:
            data = self.read_some(source, HEAD_SIZE - len(head)) if len(head) < HEAD_SIZE else b""
            if not data:
                raise Problem(b"not an HTTP answer")
            head += data
        head, _, content = head.partition(b"\r\n\r\n")
        status = re.match(rb"HTTP/1\.[01]\s*([0-9]{1,3})", head)
        if not status:
            raise Problem(b"not an HTTP answer")
        if int(status[1]) != 200:
            raise Problem(b"HTTP status %d" % int(status[1]))
        if re.search(rb"\r\nTransfer-Encoding:", head, re.I):
            raise Problem(b"not an HTTP/1.0 answer")
        self.keep(source, content)
        self.read_rest(source)
        announced = re.search(rb"\r\nContent-Length:[ \t]*([0-9]*)", head, re.I)
        if announced and int(announced[1] or 0) != source.size:
            raise Problem(b"not the announced size")

    def read_source(self, source, name):
        found = re.match(rb"([a-z0-9+.-]*)://(.*)", source.url, re.S)
        kind, rest = found.groups() if found else (None, b"")
        if kind is None:
            self.open_file(source, source.url, name)
            self.read_rest(source)
        elif kind == b"file":
            path = rest[9:] if rest.startswith(b"localhost/") else rest
            if not re.fullmatch(rb"/(?:[^%]|%(?!00)[0-9a-fA-F]{2})*", path, re.S):
                raise Problem(NO_URL)
            path = re.sub(rb"%(..)", lambda digits: bytes([int(digits[1], 16)]), path)
            self.open_file(source, path, name)
            self.read_rest(source)
        elif kind in (b"http", b"tcp"):
            place, slash, path = rest.partition(b"/")
            if len(place) >= 300 or re.search(rb"[ \r\n]", path) or (kind == b"tcp" and path):
                raise Problem(NO_URL)
            self.open_socket(source, place, b"80" if kind == b"http" else None, name)
            if kind == b"http":
                self.read_answer(source, place, b"/" + path)
            else:
                self.read_rest(source)
        else:
            raise Problem(NO_URL)
