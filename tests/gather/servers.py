"""Servers on the loopback that answer as servers do, and as they should not."""

import socketserver
import threading

BYTES = bytes(range(256)) * 4096  # 1 MiB


class Raw(socketserver.BaseRequestHandler):
    """Says BYTES and hangs up."""

    def handle(self):
        self.request.sendall(BYTES)


class Http(socketserver.StreamRequestHandler):
    """Answers by the path that is asked for, without looking at anything else."""

    ANSWERS = {
        b"/whole": b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BYTES), BYTES),
        b"/unannounced": b"HTTP/1.1 200 OK\r\nServer: test\r\n\r\n" + BYTES,
        b"/empty": b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"/short": b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"/garbage": b"220 mail.example ESMTP\r\n\r\n",
        b"/nothing": b"",
        b"/endless-head": b"HTTP/1.0 200 OK\r\n" + b"X: y\r\n" * 5000,
    }

    def handle(self):
        path = self.rfile.readline().split()[1]
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        try:
            self.wfile.write(self.ANSWERS.get(path, b"HTTP/1.0 404 Not Found\r\n\r\nno such page"))
        except ConnectionError:  # who does not like the head need not read on
            pass


class Silent(socketserver.BaseRequestHandler):
    """Says nothing until it may."""

    def handle(self):
        self.server.asked.release()
        self.server.may_speak.wait()
        self.request.sendall(b"at last")


class Servers:
    """All of them, each on a port of its own, and one port where nobody listens."""

    def __enter__(self):
        self._servers = [socketserver.ThreadingTCPServer(("127.0.0.1", 0), kind) for kind in (Raw, Http, Silent, Raw)]
        self.raw, self.http, self.silent, self.nobody = (server.server_address[1] for server in self._servers)
        self._servers.pop().server_close()
        silent = self._servers[2]
        self.asked, self.may_speak = silent.asked, silent.may_speak = threading.Semaphore(0), threading.Event()
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_details):
        self.may_speak.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()
