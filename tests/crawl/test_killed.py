"""Whatever happens to the processes, the report is the same: kill -9, Ctrl-C, several processes on one file."""

import shutil
import signal
import subprocess
import time

import pytest
from conftest import LIMIT_SECONDS, TOOL
from programs import Terminal
from site_of_tests import page


def finish(process, expected):
    out, said = process.communicate(timeout=LIMIT_SECONDS)
    assert out.splitlines() == expected, said
    assert process.returncode == (0 if len(expected) == 1 else 1)
    return said


@pytest.mark.parametrize("attempt", range(3))
def test_tsk_19_killed_at_random_moments_it_goes_on_to_the_same_report(crawl, documentation, choices, attempt):
    start, expected = documentation
    workers = str(choices.choice([1, 3, 8]))
    kills, longest = 0, 0.6
    while kills < 8:
        process = crawl.start(start, "--workers", workers)
        try:
            process.wait(choices.uniform(0.01, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        if kills > 0:
            break
        longest /= 2  # the machine is so fast that it had ended before: once more, from the beginning
        assert longest > 0.01
        for file in crawl.database.parent.glob("crawl.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    status, report, said = crawl.run(start, "--workers", workers)
    assert (status, report) == (1, expected), (attempt, kills, said)
    assert {record["status"] for record in crawl.records()} <= {"COMPLETED", "FAILED"}


def test_tsk_22_what_was_fetched_is_not_fetched_again_after_a_kill(crawl, site):
    every = [f"/{i}" for i in range(40)]
    for path in every:
        site.answers[path] = page(*every)
    site.answers["/"] = page(*every, "/slow0", "/slow1")
    site.answers["/slow0"] = site.answers["/slow1"] = site.hang
    process = crawl.start(site.url(), "--workers", "2", "--timeout", "60")
    for _ in range(2):
        assert site.hanging.acquire(timeout=LIMIT_SECONDS)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = dict(site.asked)
    site.answers["/slow0"] = site.answers["/slow1"] = page("/")
    status, report, _ = crawl.run(site.url(), "--workers", "2")
    assert (status, report[0].split()[0]) == (0, "43")
    again = [path for path, count in before.items() if site.asked[path] != count]
    assert sorted(again) == ["/slow0", "/slow1"] and set(site.asked.values()) == {1, 2}


def test_tsk_26_two_processes_on_one_file_give_the_same_report(crawl, documentation):
    start, expected = documentation
    for process in [crawl.start(start, "--workers", "2") for _ in range(2)]:
        finish(process, expected)
    assert all(record["rescues"] == 0 for record in crawl.records())


def test_tsk_26_two_processes_on_one_file_share_the_work(crawl, site):
    site.answers.update({"/": page("/hang0", "/hang1"), "/hang0": site.hang, "/hang1": site.hang})
    both = [crawl.start(site.url(), "--workers", "1", "--timeout", "60") for _ in range(2)]
    for _ in both:  # each of them waits for one page, so the other one is the other's
        assert site.hanging.acquire(timeout=LIMIT_SECONDS)
    nodes = {record["node"] for record in crawl.records() if record["status"] == "RUNNING"}
    assert len(nodes) == 2
    site.answers["/hang0"] = site.answers["/hang1"] = page("/")
    site.release.set()
    reports = {process.communicate(timeout=LIMIT_SECONDS) for process in both}
    assert len(reports) == 1 and reports.pop()[0].splitlines()[0].startswith("3 pages"), reports


def test_tsk_18_when_one_of_two_is_killed_the_other_finishes(crawl, documentation, choices):
    start, expected = documentation
    first, second = (crawl.start(start, "--workers", "2") for _ in range(2))
    time.sleep(choices.uniform(0.1, 0.6))
    first.send_signal(signal.SIGKILL)
    first.wait()
    finish(second, expected)


def test_tsk_26_two_crawls_in_one_file_do_not_mix(crawl, documentation, site):
    start, expected = documentation
    site.answers.update({"/": page("/a"), "/a": page("/")})
    one, two = crawl.start(start), crawl.start(site.url())
    finish(one, expected)
    said = two.communicate(timeout=LIMIT_SECONDS)
    assert said[0].startswith("2 pages, "), said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_tsk_14_ctrl_c_hands_back_and_costs_no_try(crawl, site, number):
    site.answers.update({"/": page("/hang", "/other"), "/hang": site.hang, "/other": page("/")})
    process = crawl.start(site.url(), "--timeout", "60", "--workers", "2")
    assert site.hanging.acquire(timeout=LIMIT_SECONDS)
    began = time.monotonic()
    process.send_signal(number)
    out, said = process.communicate(timeout=LIMIT_SECONDS)
    assert (process.returncode, out) == (128 + number, "") and "interrupted" in said
    assert time.monotonic() - began < 3
    records = crawl.records()
    assert {record["status"] for record in records} <= {"QUEUED", "SUSPENDED", "COMPLETED"}
    assert all(record["rescues"] == 0 and record["failure"] is None for record in records)
    hung = [record for record in records if "hang" in record["payload"]["url"]][0]
    assert (hung["attempt"], hung["deliveries"]) == (0, 0)
    site.answers["/hang"] = page("/")
    status, report, _ = crawl.run(site.url())
    assert (status, report[0].split()[0]) == (0, "3")


def test_tsk_14_ctrl_c_at_random_moments(crawl, documentation, choices):
    start, expected = documentation
    for _ in range(5):
        process = crawl.start(start)
        time.sleep(choices.uniform(0, 0.4))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode in (130, -signal.SIGINT, 1)  # before the handler is there, and after the end
    status, report, _ = crawl.run(start)
    assert (status, report) == (1, expected)
    assert all(record["rescues"] == 0 for record in crawl.records())


def test_tsk_16_a_server_that_dies_in_the_middle_gives_broken_links(crawl, site):
    site.answers["/"] = page(*(f"/{i}" for i in range(20)))

    def last_words(handler, _times):
        handler.say(200, page("/"))
        site.server_close()

    for i in range(20):
        site.answers[f"/{i}"] = last_words
    status, report, _ = crawl.run(site.url(), "--timeout", "2")
    assert status == 1 and report[1:] and all(line.endswith(("server", "fully", "peer", "data")) or "onnect" in line for line in report[1:])


def test_tsk_09_a_message_to_a_parked_page_changes_nothing(crawl, site):
    site.answers.update({"/": page("/hang"), "/hang": site.hang})
    process = crawl.start(site.url(), "--timeout", "60", "--workers", "2")
    assert site.hanging.acquire(timeout=LIMIT_SECONDS)
    root = [record for record in crawl.records() if record["parent"] is None][0]
    subprocess.run([TOOL, "--db", str(crawl.database), "notify", root["id"]], check=True)
    time.sleep(0.5)
    assert process.poll() is None
    site.answers["/hang"] = page("/")
    site.release.set()
    out, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert out.startswith("2 pages"), out


def test_tsk_14_progress_is_shown_on_a_terminal_only(crawl, site):
    site.answers.update({"/": page("/a"), "/a": page("/")})
    assert crawl.run(site.url())[2] == ""
    status, seen = Terminal(crawl.command(site.url("/a")), None).finish()
    assert status == 0 and b"fetched" in seen and b"2 pages" in seen


def test_sec_11_what_somebody_else_wrote_into_the_file_does_nothing_to_the_terminal(crawl, site):
    site.answers.update({"/": page("/a"), "/a": page("/")})
    assert crawl.run(site.url())[0] == 0
    for payload in ('{"url":"\u009b31m"}', '{"url":"\\u001b[31m"}', '{"url":"x"', "7"):
        subprocess.run([TOOL, "--db", str(crawl.database), "submit", "crawl.page", payload], capture_output=True, check=False)
    status, report, said = crawl.run(site.url("/a"))
    assert (status, len(report), said) == (0, 1, "")
    kinds = {record["failure"]["kind"] for record in crawl.records() if record["failure"]}
    assert kinds <= {"Payload"}
