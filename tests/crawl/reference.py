"""What a crawl has to report, found out by other means: one thread, Python's own URLs, HTML and HTTP."""

import http.client
import urllib.parse
from html.parser import HTMLParser

MAXIMUM_PAGE = 64 << 20


class Links(HTMLParser):
    """The references of a page, relative to what it says they are relative to."""

    def __init__(self, url):
        super().__init__(convert_charrefs=True)
        self.base, self.based, self.found = url, False, []

    def handle_starttag(self, tag, attrs):
        target = dict(reversed(attrs)).get("href")
        if target is None or tag not in ("a", "area", "base"):
            return
        target = target.strip(" \t\r\n\f").replace("\t", "").replace("\n", "").replace("\r", "")
        try:
            resolved = urllib.parse.urljoin(self.base, target)
        except ValueError:
            return
        if tag == "base":
            if not self.based:
                self.base, self.based = resolved, True
        else:
            self.found.append(resolved)


def spelled(url):
    """One spelling of a URL, or None when it leads to no page."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not parts.hostname:
        return None
    host = parts.hostname if port in (None, {"http": 80, "https": 443}[parts.scheme]) else f"{parts.hostname}:{port}"
    safe = "%/:=&?~#+!$,;'@()*[]"
    path, query = (urllib.parse.quote(part, safe=safe) for part in (parts.path or "/", parts.query))
    return urllib.parse.urlunsplit((parts.scheme, host, path, query, ""))


def get(url):
    """The status, the type, the bytes, and where a redirect leads."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        connection.request("GET", parts.path + ("?" + parts.query if parts.query else ""))
        answer = connection.getresponse()
        kind = (answer.getheader("Content-Type") or "").split(";")[0].strip().lower()
        content = answer.read() if answer.status == 200 and kind in ("text/html", "application/xhtml+xml") else b""
        return answer.status, kind, content, answer.getheader("Location")
    finally:
        connection.close()


def report_of(start):
    """The lines that crawl is to print; no page of the site fails but by its status."""
    start = spelled(start)
    site = urllib.parse.urlsplit(start)[:2]
    seen, due, broken = {start}, [start], []
    pages = size = files = 0
    while due:
        url = due.pop()
        status, kind, content, target = get(url)
        found = []
        if 300 <= status <= 399 and target is not None:
            found = [urllib.parse.urljoin(url, target)]
        elif not 200 <= status <= 299:
            broken.append(f"{url}: HTTP status {status}")
        elif kind not in ("text/html", "application/xhtml+xml"):
            files += 1
        else:
            pages += 1
            size += len(content)
            links = Links(url)
            links.feed(content.decode("utf-8", "replace"))
            found = links.found
        for link in map(spelled, found):
            if link is not None and urllib.parse.urlsplit(link)[:2] == site and link not in seen:
                seen.add(link)
                due.append(link)
    head = f"{pages} pages, {size} bytes, {files} other files, {len(broken)} broken links"
    return [head, *sorted(broken, key=str.encode)]


if __name__ == "__main__":
    import sys
    print("\n".join(report_of(sys.argv[1])))
