"""A server that answers as a test wants it to, and remembers what it was asked."""

import collections
import http.server
import threading


def page(*links, more=""):
    """HTML with these references."""
    return f"<!DOCTYPE html><title>t</title>{more}<p>" + " ".join(f'<a href="{link}">x</a>' for link in links)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server
        with site.lock:
            site.asked[self.path] += 1
            times = site.asked[self.path]
        answer = site.answers.get(self.path)
        try:
            if callable(answer):
                answer(self, times)
            elif answer is None:
                self.say(404, "nothing here")
            else:
                self.say(200, answer)
        except OSError:  # whoever asked has heard enough
            pass

    def say(self, status, content="", kind="text/html; charset=utf-8", **fields):
        content = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        if kind is not None:
            self.send_header("Content-Type", kind)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in fields:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words):
        pass


class Site(http.server.ThreadingHTTPServer):
    """`answers`: of each path the HTML, or a function of the handler and how often the path was asked for."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked, self.lock = {}, collections.Counter(), threading.Lock()
        self.hanging, self.release = threading.Semaphore(0), threading.Event()

    def handle_error(self, *_about):
        pass

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def hang(self, _handler, _times):
        """Says nothing, until the end of the test."""
        self.hanging.release()
        self.release.wait()


def redirect(target, status=301):
    return lambda handler, _times: handler.say(status, "moved", Location=target)


def broken_off(handler, _times):
    """Announces more than comes."""
    handler.say(200, page("/never"), Content_Length="100000")
    handler.close_connection = True
