"""What crawl reports: the same as an independent crawler, of a real site and of one that is as bad as can be."""

import re
import subprocess

import pytest
from conftest import CRAWL, Crawl
from reference import report_of
from site_of_tests import broken_off, page, redirect

USAGE = "usage: crawl START [--db FILE] [--workers N] [--timeout SECONDS]\n"


@pytest.mark.parametrize("workers", ["1", "2", "16"])
def test_tsk_05_the_report_of_real_documentation(crawl, documentation, workers):
    start, expected = documentation
    assert len(expected) > 30 and int(expected[0].split()[0]) > 50
    status, report, said = crawl.run(start, "--workers", workers)
    assert report == expected
    assert (status, said) == (1, "")


def test_tsk_20_each_page_is_fetched_once_whoever_links_to_it(crawl, site):
    every = [f"/{i}" for i in range(50)]
    for path in ["/", *every]:
        site.answers[path] = page("/", *every, f"{path}#part", "//127.0.0.1/elsewhere", "http://other.example/")
    status, report, _ = crawl.run(site.url(), "--workers", "8")
    assert report == report_of(site.url())
    assert status == 0 and report[0].startswith("51 pages, ")
    assert set(site.asked.values()) == {2}  # once by each of the two
    assert len(crawl.records()) == 51


def test_tsk_16_links_that_lead_nowhere_are_listed_with_the_reason(crawl, site):
    site.answers.update({
        "/": page("/here", "missing", "/gone", "/forbidden", "/a b", "/ü", '/%22quoted"', "/deep/below"),
        "/here": page("/missing", "/here?q=1", "/here?q=2#x", "?q=3"),
        "/deep/below": page("../up", "../../../over", "./", "beside", "?x=%2F"),
        "/gone": lambda handler, _times: handler.say(410),
        "/forbidden": lambda handler, _times: handler.say(403),
    })
    status, report, _ = crawl.run(site.url())
    assert report == report_of(site.url())
    assert status == 1 and f"{site.url('/gone')}: HTTP status 410" in report and len(report) > 10
    failed = [record for record in crawl.records() if record["status"] == "FAILED"]
    assert len(failed) == len(report) - 1 and {record["failure"]["kind"] for record in failed} == {"Broken"}


def test_tsk_05_redirects_lead_to_pages_of_their_own(crawl, site):
    site.answers.update({
        "/": page("/moved", "/loop", "/away", "/to-nowhere", "/chain", "/without"),
        "/moved": redirect("/target"),
        "/target": page("/"),
        "/loop": redirect("/pool", 302),
        "/pool": redirect("/loop", 307),
        "/self": redirect("/self"),
        "/chain": redirect("self"),
        "/away": redirect("http://other.example/"),
        "/to-nowhere": redirect("/nowhere", 308),
        "/without": lambda handler, _times: handler.say(302),
    })
    status, report, _ = crawl.run(site.url())
    assert report == report_of(site.url())
    assert (status, report[0].split()[0]) == (1, "2")
    assert report[1:] == [f"{site.url('/nowhere')}: HTTP status 404", f"{site.url('/without')}: HTTP status 302"]
    assert crawl.run(site.url("/moved"))[1] == report_of(site.url("/moved"))


def test_tsk_05_what_is_no_page_is_counted_and_not_read(crawl, site):
    endless = []

    def image(handler, _times):
        handler.say(200, b"", "image/png", Content_Length=str(1 << 40))
        for _ in range(10000):
            handler.wfile.write(b"<a href='/trap'>" * 1000)
        endless.append("all of it")

    site.answers.update({
        "/": page("/image", "/text", "/untyped", "mailto:a@b", "javascript:x()", "ftp://127.0.0.1/", "data:text/html,x", "xhtml", "#", ""),
        "/image": image,
        "/text": lambda handler, _times: handler.say(200, page("/trap"), "text/plain"),
        "/untyped": lambda handler, _times: handler.say(200, page("/trap"), None),
        "/xhtml": lambda handler, _times: handler.say(200, page("/empty"), "application/xhtml+xml;charset=utf-8"),
        "/empty": lambda handler, _times: handler.say(200, ""),
    })
    status, report, _ = crawl.run(site.url())
    assert status == 0 and re.fullmatch(r"3 pages, \d+ bytes, 3 other files, 0 broken links", report[0])
    assert not endless and "/trap" not in site.asked


def test_tsk_05_references_as_pages_really_write_them(crawl, site):
    head = '<base href="/sub/"><base href="/other/">'
    site.answers.update({
        "/": page(" relative \n", "rel\native", "/a&amp;b", "/a&amp;b=1&c", more=head) + "<AREA HREF=/area><a name=x><a href><a HREF='/sin gle'>"
             "<!-- <a href='/comment'> --><script>'<a href=\"/script\">'</script><a href=/unquoted>",
        "/sub/relative": page("x/../y/./z"),
        "/area": page("/"), "/unquoted": page("/"), "/sin%20gle": page("/"), "/a&b": page("/"), "/a&b=1&c": page("/"),
        "/sub/y/z": page("/"),
    })
    status, report, _ = crawl.run(site.url())
    assert report == report_of(site.url())
    assert (status, report[0].split()[0]) == (0, "8") and not {"/comment", "/script"} & set(site.asked)


def test_rsc_04_a_huge_page_is_read_in_little_memory(crawl, site):
    part = (page("/next") + "<p>" + "word " * 200).encode()

    def huge(handler, _times):
        handler.say(200, b"", Content_Length=str(len(part) * 40000))
        for _ in range(400):
            handler.wfile.write(part * 100)

    def endless(handler, _times):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        while True:
            handler.wfile.write(part * 100)

    site.answers.update({"/": page("/huge", "/endless"), "/huge": huge, "/next": page("/")})
    site.answers["/endless"] = endless
    status, report, said = crawl.run(site.url(), "--workers", "2", before=["prlimit", "--as=600000000"])
    assert report[1:] == [f"{site.url('/endless')}: a page of more than 64 MiB"], said
    assert report[0].startswith("3 pages, ") and status == 1


def test_tsk_30_more_links_than_a_page_may_have(crawl, site):
    site.answers["/"] = page("/many")
    site.answers["/many"] = page(*(f"/{i}" for i in range(250000)))
    status, report, _ = crawl.run(site.url())
    assert (status, report[1:]) == (1, [f"{site.url('/many')}: a page of too many links"])


def test_tsk_20_urls_that_are_longer_than_a_key(crawl, site):
    long = ["/" + "x" * size for size in (230, 240, 254, 255, 256, 1000, 1900)] + ["/" + "x" * 1000 + end for end in "abc"]
    site.answers["/"] = page(*long, "/" + "x" * 3000)
    for path in long:
        site.answers[path] = page(*long)
    status, report, _ = crawl.run(site.url())
    assert (status, report[0].split()[0]) == (0, "11")


def test_tsk_15_a_server_that_is_better_the_next_time(crawl, site):
    def second(handler, times):
        if times == 1:
            handler.connection.close()
        else:
            handler.say(200, page("/"))

    def third(handler, times):
        broken_off(handler, times) if times < 3 else handler.say(200, page("/", "/busy"))

    site.answers.update({"/": page("/second", "/third"), "/second": second, "/third": third})
    site.answers["/busy"] = lambda handler, times: handler.say(503 if times == 1 else 200, page("/"))
    status, report, _ = crawl.run(site.url())
    assert (status, report[0].split()[0], len(report)) == (0, "4", 1)
    assert (site.asked["/second"], site.asked["/third"], site.asked["/busy"]) == (2, 3, 2)


def test_tsk_15_a_server_that_hangs_or_breaks_off_every_time(crawl, site):
    site.answers.update({"/": page("/hang", "/partial", "/fine"), "/hang": site.hang, "/partial": broken_off, "/fine": page("/")})
    status, report, _ = crawl.run(site.url(), "--timeout", "1", "--workers", "4")
    assert status == 1 and report[0].startswith("2 pages, ")
    assert report[1:] == [f"{site.url('/hang')}: Timeout was reached", f"{site.url('/partial')}: Transferred a partial file"]
    assert (site.asked["/hang"], site.asked["/partial"]) == (3, 3)


def test_tsk_16_a_start_that_is_not_there_is_no_report(crawl, site):
    status, report, said = crawl.run(site.url("/nowhere"))
    assert (status, report, said) == (2, [], f"crawl: {site.url('/nowhere')}: HTTP status 404\n")
    site.server_close()
    site.shutdown()
    status, report, said = crawl.run(site.url("/"))
    assert (status, report, said) == (2, [], f"crawl: {site.url('/')}: Couldn't connect to server\n")


def test_tsk_21_a_crawl_that_has_ended_is_reported_again_and_not_made_again(crawl, site):
    site.answers.update({"/": page("/a", "/b"), "/a": page("/")})
    first = crawl.run(site.url())
    asked = sum(site.asked.values())
    status, report, said = crawl.run(site.url())
    assert (status, report) == first[:2] and "ended before" in said and sum(site.asked.values()) == asked
    assert crawl.run(site.url("/a"))[1][0].startswith("2 pages")  # another START is another crawl


@pytest.mark.parametrize("options", [
    [], ["http://127.0.0.1/", "http://127.0.0.1/"], ["ftp://127.0.0.1/"], ["/etc/passwd"], [""], ["http://user:pass@127.0.0.1/"],
    ["http://127.0.0.1/", "--workers", "0"], ["http://127.0.0.1/", "--workers", "1025"], ["http://127.0.0.1/", "--timeout", "x"],
    ["http://127.0.0.1/", "--db"], ["http://127.0.0.1/", "--nonsense"],
])
def test_bnd_02_a_command_line_that_is_wrong(tmp_path, options):
    done = subprocess.run([CRAWL, *options], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.endswith(USAGE) and done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_dur_08_a_database_that_cannot_be_used_is_named(tmp_path, site):
    (tmp_path / "text").write_text("not a database " * 1000)
    for name in ("text", "no/such/folder"):
        status, report, said = Crawl(tmp_path / name).run(site.url())
        assert status == 2 and report == [] and said.startswith(f"crawl: {tmp_path / name}: ")
