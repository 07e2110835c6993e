#!/usr/bin/python3
"""crawl START [--db FILE] [--workers N] [--timeout SECONDS]

Crawls a web site: every HTML page that START leads to on the same scheme, host and port. Prints how many pages and bytes
there are, and which links lead nowhere.

Each page is a durable task in FILE (crawl.db unless given), a SQLite database. A page submits a child for every link that
nobody has seen, is parked until they have ended, and adds up what they came to; what START comes to is the report. What
was fetched is remembered: killed at any moment, the same command goes on where it was and prints the same report in the
end. A second one that is started beside the first, on the same FILE, shares the work, also when it is the one in C.

Ctrl-C hands back what is being fetched and ends with status 130. Otherwise 0: no broken links; 1: there are some; 2: no
report.
"""

import argparse
import codecs
import http.client
import os
import signal
import socket
import sys
import uuid
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit, urlunsplit

import nocter
from nocter import tasks as durable
from nocter.tasks import Fail, KeyScope, Retry, Status, Submission

TYPE, STEP, TRIES = "crawl.page", "page", 3
CHUNK, MAXIMUM_PAGE = 1 << 16, 64 << 20
MAXIMUM_URL, MAXIMUM_KEY, MAXIMUM_LINKS = 2000, 255, 100_000
MAXIMUM_JSON = 32 << 20
MAXIMUM_RESCUES = 1000  # a crawl may be killed that often
PROGRESS_SECONDS = 0.25
DEFAULT_PORTS = {"http": 80, "https": 443}
PAGES = ("text/html", "application/xhtml+xml")


# ---- What a page is called: one spelling of its URL ---------------------------------------------------------------------


def escaped(url):
    """What may not stand in a URL, or would be escaped in JSON, is written as %XX."""
    plain = (chr(byte) if 32 < byte < 127 and chr(byte) not in '"<>\\^`{|}' else f"%{byte:02X}" for byte in url.encode())
    return "".join(plain)


def resolve(base, reference):
    """What a reference on a page means, or None when it leads to no page."""
    clean = reference.strip(" \t\n\r\f").partition("#")[0].rstrip(" ")
    clean = escaped("".join(letter for letter in clean if letter not in "\t\n\r\f"))
    try:
        parts = urlsplit(urljoin(base, clean) if base else clean)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not host or "@" in parts.netloc:
        return None
    host = f"[{host}]" if ":" in host else host
    where = host if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{host}:{port}"
    url = urlunsplit((parts.scheme, where, parts.path or "/", parts.query, ""))
    return url if len(url) <= MAXIMUM_URL else None


def same_site(one, other):
    return urlsplit(one)[:2] == urlsplit(other)[:2]


def key_of(url):
    """The URL itself; of a long one its beginning and a number made of all of it."""
    if len(url) <= MAXIMUM_KEY:
        return url
    one, other, mask = 14695981039346656037, 1099511628211, 2**64 - 1
    for byte in url.encode():
        one = (one ^ byte) * 1099511628211 & mask  # FNV-1a
        other = (other + byte) * 6364136223846793005 + 1442695040888963407 & mask
    return f"{url[:200]}#{one:016x}{other:016x}"


# ---- Getting one page ---------------------------------------------------------------------------------------------------


class Left(Exception):
    """The page is left to others: this process stops, or somebody cancelled the task."""


class Links(HTMLParser):
    """Finds the links to the same site while the page comes."""

    def __init__(self, url):
        super().__init__(convert_charrefs=True)
        self.url, self.base, self.based, self.found = url, url, False, set()

    def handle_starttag(self, tag, attrs):
        reference = dict(reversed(attrs)).get("href")
        if reference is None or tag not in ("a", "area", "base"):
            return
        if tag == "base":
            if not self.based:
                self.base, self.based = resolve(self.url, reference) or self.base, True
            return
        self.add(reference)

    def add(self, reference):
        link = resolve(self.base, reference)
        if link is not None and link != self.url and same_site(self.url, link):
            self.found.add(link)
        if len(self.found) > MAXIMUM_LINKS:
            raise Fail("Broken", "a page of too many links", retry=Retry.NEVER)


def connect(url, timeout):
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=timeout), parts.path + (f"?{parts.query}" if parts.query else "")


def read_page(ctx, answer, links):
    """How many bytes there are. No page is ever in memory as a whole."""
    try:
        decoder = codecs.getincrementaldecoder(answer.headers.get_content_charset("utf-8"))("replace")
    except LookupError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
    size = 0
    while chunk := answer.read(CHUNK):
        if ctx.interrupted:
            raise Left
        size += len(chunk)
        if size > MAXIMUM_PAGE:
            raise Fail("Broken", "a page of more than 64 MiB", retry=Retry.NEVER)
        links.feed(decoder.decode(chunk))
    if answer.length:  # what was announced and has not come
        raise http.client.IncompleteRead(b"", answer.length)
    links.feed(decoder.decode(b"", final=True))
    links.close()
    return size


def look_at(ctx, url, timeout):
    """What is found there, as the crawl in C writes it too. Fail says why there is nothing."""
    links, kind, size = Links(url), "file", 0
    connection, target = connect(url, timeout)
    try:
        connection.request("GET", target, headers={"User-Agent": "nocter-crawl"})
        answer = connection.getresponse()
        moved = answer.getheader("Location") if 300 <= answer.status <= 399 else None
        if moved:
            kind = "redirect"
            links.add(moved)
        elif not 200 <= answer.status <= 299:
            later = answer.status == 429 or answer.status >= 500
            retry = Retry.BY_POLICY if later else Retry.NEVER
            raise Fail("Unreachable" if later else "Broken", f"HTTP status {answer.status}", retry=retry)
        elif (answer.getheader("Content-Type") or "").partition(";")[0].strip().lower() in PAGES:
            kind, size = "page", read_page(ctx, answer, links)
    except (OSError, http.client.HTTPException) as problem:
        raise Fail("Unreachable", reason_of(problem)) from problem
    finally:
        connection.close()
    return {"kind": kind, "bytes": size, "links": sorted(links.found)}


def reason_of(problem):
    """In the words of libcurl, so that the reports are the same."""
    if isinstance(problem, socket.gaierror):
        return "Couldn't resolve host name"
    if isinstance(problem, ConnectionRefusedError):
        return "Couldn't connect to server"
    if isinstance(problem, TimeoutError):
        return "Timeout was reached"
    if isinstance(problem, http.client.IncompleteRead):
        return "Transferred a partial file"
    if isinstance(problem, http.client.RemoteDisconnected):
        return "Server returned nothing (no headers, no data)"
    return str(problem) or type(problem).__name__


# ---- One page as a task -------------------------------------------------------------------------------------------------


def page_task(url):
    """A key that is the only one in the tree, so that no page is looked at twice, whoever finds it."""
    return Submission(TYPE, {"url": url}, key_of(url), KeyScope.TREE, priority=0, max_attempts=TRIES)


def printable(text):
    return "".join(letter if " " <= letter <= "~" and letter not in '"\\' else "?" for letter in text)


def crawl_page(ctx, timeout):
    """Its first round fetches the page and submits its links; its last round adds up what they came to."""
    url = ctx.payload["url"]
    try:
        found = ctx.step(STEP, lambda: look_at(ctx, url, timeout))
    except Left:
        return durable.hand_back()
    if not ctx.resumed:
        ctx.submit_children([page_task(link) for link in found["links"]], exist_ok=True)
    children = ctx.children()
    if children and not ctx.resumed:
        ctx.state = {"bytes": found["bytes"], "links": len(found["links"]), "children": len(children)}
    if not all(child.ended for child in children) or (children and not ctx.resumed):
        return durable.suspend_until_children()
    totals = {"pages": int(found["kind"] == "page"), "bytes": found["bytes"]}
    totals.update(files=int(found["kind"] == "file"), broken=[])
    for child in children:
        if child.status == Status.COMPLETED:
            for name, amount in child.result.items():
                totals[name] += amount
        else:
            reason = child.failure.message if child.status == Status.FAILED else "cancelled"
            totals["broken"].append(f"{child.payload['url']}: {printable(reason)}")
    totals["broken"].sort()
    return totals


# ---- From the beginning to the end --------------------------------------------------------------------------------------


def begin(store, url):
    """Whoever is first names the crawl of this START, and everybody submits it: with one identity that is one task."""
    _, name = store.shared("crawl").put_if_absent(key_of(url), str(durable.new_id()))
    root = page_task(url)
    root.id, root.priority = uuid.UUID(name), None
    return store.submit_many([root])[0]


def wait_for(store, root):
    """A store that others keep busy is asked again."""
    while True:
        if sys.stderr.isatty():
            now = store.count()
            fetched, to_go = now.suspended + now.completed, now.queued + now.running
            print(f"\r\033[K{fetched} fetched, {to_go} to go, {now.failed} broken", end="", file=sys.stderr, flush=True)
        try:
            return store.wait(root, timeout=PROGRESS_SECONDS)
        except (nocter.Timeout, nocter.Unavailable):
            continue
        finally:
            if sys.stderr.isatty():
                print("\r\033[K", end="", file=sys.stderr, flush=True)


def report(url, root):
    if root.status != Status.COMPLETED:
        reason = root.failure.message if root.status == Status.FAILED else "was cancelled"
        print(f"crawl: {url}: {reason}", file=sys.stderr)
        return 2
    totals = root.result
    counts = f"{totals['pages']} pages, {totals['bytes']} bytes, {totals['files']} other files"
    print(f"{counts}, {len(totals['broken'])} broken links")
    for line in totals["broken"]:
        print(line)
    return 1 if totals["broken"] else 0


def crawl(url, file, workers, timeout):
    handlers = {TYPE: lambda ctx: crawl_page(ctx, timeout)}
    with durable.open(f"sqlite:{file}", maximum_json=MAXIMUM_JSON, maximum_rescues=MAXIMUM_RESCUES) as store:
        root = begin(store, url)
        try:
            ended = store.wait(root, timeout=0)
            print(f"crawl: ended before: the report in {file}; remove it to crawl again", file=sys.stderr)
        except nocter.Pending:
            with store.serve(workers, handlers, name="crawl"):
                ended = wait_for(store, root)
        return report(url, ended)


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"crawl: {message}\n{self.format_usage()}")


def number(maximum):
    def read(text):
        if not (text.isdigit() and 1 <= int(text) <= maximum):
            raise argparse.ArgumentTypeError(f"a number from 1 to {maximum} is needed")
        return int(text)

    return read


def named(text):
    if not text:
        raise argparse.ArgumentTypeError("the name of a file is needed")
    return text


def main():
    cores = len(os.sched_getaffinity(0))
    parser = Arguments(prog="crawl", allow_abbrev=False, usage=__doc__.partition("\n")[0])
    parser.add_argument("start")
    parser.add_argument("--db", default="crawl.db", type=named)
    parser.add_argument("--workers", type=number(1024), default=max(4, 2 * cores))
    parser.add_argument("--timeout", type=number(86400), default=10)
    given = parser.parse_args()
    url = resolve(None, given.start)
    if url is None:
        parser.error(f"'{given.start}' is no http:// or https:// URL")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return crawl(url, given.db, given.workers, given.timeout)
    except KeyboardInterrupt:
        print("crawl: interrupted; the same command goes on", file=sys.stderr)
        return 130
    except nocter.Error as problem:
        print(f"crawl: {given.db}: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
