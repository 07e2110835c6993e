"""The crawl in Python: the same report as the one in C, killed and not, and both at once on one file."""

import os
import signal
import subprocess
import sys

import pytest
from conftest import CRAWL, LIMIT_SECONDS, ROOT, Crawl
from reference import report_of
from site_of_tests import broken_off, page, redirect

CRAWL_PYTHON = [sys.executable, os.path.join(ROOT, "bindings/python/examples/crawl.py")]


class CrawlInPython(Crawl):
    def command(self, start, *options):
        return [*CRAWL_PYTHON, *super().command(start, *options)[1:]]


@pytest.fixture
def crawl(tmp_path):
    program = CrawlInPython(tmp_path / "crawl.db")
    yield program
    for process in program.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_bnd_03_tsk_05_the_report_of_real_documentation(crawl, documentation):
    start, expected = documentation
    status, report, said = crawl.run(start)
    assert report == expected
    assert (status, said) == (1, "")
    assert crawl.run(start)[:2] == (1, expected)  # from the file


def test_bnd_03_tsk_15_of_a_site_that_is_as_bad_as_can_be(crawl, site):
    site.answers.update({
        "/": page("/here", "missing", "/a b", "/ü", "/moved", "/loop", "/image", "/busy", "/partial", "http://other.example/"),
        "/here": page("/missing", "/here?q=1", "?q=3", "../../over", "/" + "x" * 1000),
        "/moved": redirect("/here"),
        "/loop": redirect("/loop", 302),
        "/image": lambda handler, _times: handler.say(200, b"", "image/png"),
        "/busy": lambda handler, times: handler.say(503 if times == 1 else 200, page("/")),
        "/partial": broken_off,
    })
    status, report, _ = crawl.run(site.url(), "--timeout", "2")
    site.answers["/partial"] = page("/")
    expected = report_of(site.url())
    assert status == 1 and f"{site.url('/partial')}: Transferred a partial file" in report
    assert [line for line in report[1:] if "/partial" not in line] == expected[1:]


def test_bnd_03_tsk_19_killed_it_goes_on_to_the_same_report(crawl, documentation, choices):
    start, expected = documentation
    for _ in range(4):
        process = crawl.start(start, "--workers", "4")
        try:
            process.wait(choices.uniform(0.2, 1.5))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    assert crawl.run(start)[:2] == (1, expected)


def test_bnd_06_crawls_in_c_and_in_python_share_one_file(crawl, documentation):
    start, expected = documentation
    in_c = subprocess.Popen([CRAWL, *crawl.command(start, "--workers", "2")[2:]], stdout=subprocess.PIPE, text=True)
    in_python = crawl.start(start, "--workers", "2")
    for process in (in_c, in_python):
        out, _ = process.communicate(timeout=LIMIT_SECONDS)
        assert (process.returncode, out.splitlines()) == (1, expected)


def test_bnd_03_ctrl_c_hands_back_and_ends(crawl, site):
    site.answers.update({"/": page("/slow"), "/slow": site.hang})
    process = crawl.start(site.url(), "--timeout", "60")
    assert site.hanging.acquire(timeout=LIMIT_SECONDS)
    process.send_signal(signal.SIGINT)
    site.release.set()
    _, said = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 130 and "interrupted" in said
