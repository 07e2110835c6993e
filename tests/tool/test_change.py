"""Changing: submit, notify, cancel, retry, purge; and what the exit status says."""

import json
import os
import stat
import subprocess
import time

import pytest
from conftest import LIMIT_SECONDS, TOOL
from programs import Terminal


def test_tsk_09_a_message_wakes_a_parked_task(tool, start_worker):
    one = tool.submit("waiter")
    worker = start_worker()
    run, _ = worker.claim("waiter")
    worker.tell("park", run, "notified")
    assert tool.json("show", one)["status"] == "SUSPENDED"
    assert tool.run("notify", one, '{"hello": 1}') == ""
    record = tool.json("show", one)
    assert (record["status"], record["messages"], record["woken_by"]) == ("QUEUED", 1, "MESSAGE")
    run, again = worker.claim("waiter")
    assert again == one
    worker.tell("done", run, '{"fine": true}')
    assert tool.run("notify", one, expect=1).startswith("nocter: ")
    assert tool.json("show", one)["result"] == {"fine": True}


def test_tsk_11_cancel_ends_a_task_and_everything_below_it(tool, start_worker):
    root = tool.submit("parent")
    worker = start_worker()
    run, _ = worker.claim("parent")
    children = [worker.tell("child", run, "child", "-")[0] for _ in range(3)]
    worker.tell("park", run, "children")
    one, running = worker.claim("child")
    assert tool.json("cancel", root) == {"id": root, "touched": 4}
    assert tool.json("show", root)["status"] == "CANCELLED"
    record = tool.json("show", running)
    assert record["status"] == "RUNNING" and record["cancel_requested"] is True
    assert "asked to end" in tool.run("why", running) and "asked to end" in tool.run("show", running)
    worker.tell("done", one, '{"late": 1}', expect="NOCTER_CANCELLED")
    assert tool.json("show", running)["result"] == {"late": 1}
    assert {tool.json("show", child)["status"] for child in children} == {"CANCELLED"}
    assert tool.run("cancel", root, expect=1).startswith("nocter: ")
    assert tool.run("submit", "child", "--parent", root, expect=1).startswith("nocter: ")


def test_tsk_20_who_comes_second_with_a_key_learns_who_has_it(tool):
    one = tool.submit("t", "--key", "k")
    assert tool.run("submit", "t", "--key", "k", expect=1) == f"nocter: the key is taken by {one}\n"
    child = tool.submit("c", "--parent", one, "--key", "k", "--key-scope", "tree")
    assert child in tool.run("submit", "c", "--parent", one, "--key", "k", "--key-scope", "tree", expect=1)
    assert tool.json("show", child)["parent"] == one and tool.json("show", child)["priority"] == 1
    assert tool.json("show", child)["key_scope"] == "tree"


def test_tsk_21_a_submit_that_is_repeated_with_its_id_makes_one_task(tool):
    identity = "01939f5c-8a3e-7abc-8def-0123456789ab"
    for _ in range(2):
        assert tool.submit("t", "--id", identity) == identity
    assert len(tool.json("list")) == 1
    assert tool.run("submit", "other", "--id", identity, expect=1).startswith("nocter: ")


def test_tsk_15_retry_of_what_has_failed_makes_a_new_task_like_it(tool, start_worker):
    one = tool.submit("t", '{"n": 1}')
    worker = start_worker()
    run, _ = worker.claim("t")
    worker.tell("fail", run, "Bad", "never", "luck")
    again = tool.run("retry", one).strip()
    assert again != one and tool.json("show", again)["payload"] == {"n": 1}
    run, claimed = worker.claim("t")
    assert claimed == again
    worker.tell("done", run, "{}")
    assert tool.run("retry", again, expect=1).startswith("nocter: ")


def test_tsk_23_purge_removes_what_has_ended(tool):
    one, two = tool.submit("t"), tool.submit("t")
    tool.run("cancel", one)
    assert tool.run("purge", "--older-than", "1h") == "0 tasks removed\n"
    assert tool.json("purge", "--all") == {"removed": 1}
    assert [task["id"] for task in tool.json("list")] == [two]
    assert "needs --older-than" in tool.run("purge", expect=2)


@pytest.mark.parametrize("words", [
    [], ["nonsense"], ["show"], ["list", "--limit", "x"], ["list", "--status", "lost"], ["submit", "t", "--after", "soon"],
    ["submit", "t", "--at", "noon"], ["submit", "t", "--after", "1s", "--at", "2026-01-01 00:00"], ["submit", "t", "--id", "7"],
    ["submit", "t", "--key-scope", "world"], ["watch", "--interval", "0"], ["purge", "--older-than", "x"], ["--bad", "list"],
])
def test_tsk_29_a_command_line_that_is_wrong_ends_with_2(tool, words):
    tool.submit("t")
    assert tool.run(*words, expect=2) != ""


def test_tsk_29_help_is_enough_for_a_stranger(tool):
    text = tool.run("--help")
    for command in "list show tree why submit notify cancel retry purge watch events doctor".split():
        assert f"  {command}" in text
        assert tool.run(command, "--help") != ""
    for word in ("Exit status", "NOCTER_DB", "--json", "DURATION", "Examples"):
        assert word in text
    assert tool.run("--version").startswith("nocter 0.")


def run_without(*words, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "NOCTER_DB"}
    return subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False, env=dict(kept, **environment))


def test_tsk_29_the_database_comes_from_the_command_line_or_the_environment(tool):
    one = tool.submit("t")
    assert run_without("list").returncode == 2 and "NOCTER_DB" in run_without("list").stderr
    for database in (str(tool.database), f"sqlite:{tool.database}"):
        assert one in run_without("list", NOCTER_DB=database).stdout
        assert one in run_without("list", "--db", database, NOCTER_DB="/nowhere").stdout


def test_dur_08_a_database_that_is_not_there_is_not_made_by_looking(tool):
    assert "No such file" in tool.run("list", expect=1)
    assert "No such file" in tool.run("submit", "t", expect=1)
    assert not tool.database.exists()
    tool.database.write_bytes(b"not a database, " * 1000)
    before = tool.database.read_bytes()
    assert tool.run("list", expect=1).startswith("nocter: ")
    assert tool.database.read_bytes() == before


def test_sec_02_a_password_in_a_url_is_not_repeated(tool):
    done = run_without("--db", "postgresql://me:canary@127.0.0.1:1/x", "list")
    assert done.returncode == 1 and "canary" not in done.stdout + done.stderr


def test_tsk_17_the_tool_does_not_disturb_a_worker(tool, start_worker):
    one = tool.submit("t")
    worker = start_worker()
    run, _ = worker.claim("t")
    for _ in range(20):
        for words in (["list"], ["show", one], ["tree"], ["why", one], ["watch", "--once"], ["doctor"], ["events"]):
            tool.run(*words)
    time.sleep(2.5)  # longer than the worker's lease, which it renews
    worker.tell("done", run, "{}")
    record = tool.json("show", one)
    assert (record["status"], record["rescues"], record["deliveries"]) == ("COMPLETED", 0, 1)


# ---- Watching -------------------------------------------------------------------------------------------------------


def test_tsk_14_watch_shows_the_state_that_tasks_tell(tool, start_worker):
    one = tool.submit("slow")
    worker = start_worker()
    run, _ = worker.claim("slow")
    worker.tell("state", run, '{"done": 5, "total": 10, "file": "x"}')
    text = tool.run("watch", "--once")
    assert "1 running" in text and "[==========          ]  50 %" in text and "file=x" in text
    picture = json.loads(tool.run("--json", "watch", one, "--once"))
    assert picture["counts"]["running"] == 1 and picture["tasks"][0]["state"] == {"done": 5, "total": 10, "file": "x"}
    with subprocess.Popen(tool.command("watch", one, "--interval", "50ms"), stdout=subprocess.PIPE, text=True) as watching:
        assert "1 running" in watching.stdout.readline()
        worker.tell("done", run, "{}")
        rest, _ = watching.communicate(timeout=LIMIT_SECONDS)
        assert "1 completed" in rest and watching.returncode == 0


def test_tsk_29_watch_ends_with_ctrl_c(tool):
    tool.submit("t")
    with subprocess.Popen(tool.command("watch", "--interval", "50ms"), stdout=subprocess.PIPE, text=True) as watching:
        assert "1 queued" in watching.stdout.readline()
        watching.send_signal(2)
        watching.communicate(timeout=LIMIT_SECONDS)
        assert watching.returncode == 130


def test_tsk_29_events_are_printed_and_followed(tool, start_worker):
    worker = start_worker("events")
    one = tool.submit("t")
    run, _ = worker.claim("t")
    worker.tell("done", run, '{"r": 1}')
    printed = [json.loads(line) for line in tool.run("--json", "events").splitlines()]
    kinds = [event["event"] for event in printed if event["task"] == one]
    assert kinds[-2:] == ["STARTED", "ENDED"] and printed[-1]["data"] == {"r": 1}
    assert [event["sequence"] for event in printed] == sorted(event["sequence"] for event in printed)
    text = tool.run("events", "--after", str(printed[-2]["sequence"]))
    assert len(text.splitlines()) == 1 and "ENDED" in text and "COMPLETED" in text
    with subprocess.Popen(tool.command("--json", "events", "--follow", "--after", str(printed[-1]["sequence"])),
                          stdout=subprocess.PIPE, text=True) as following:
        two = tool.submit("t")  # the log is kept, so what the tool does stands in it too
        event = json.loads(following.stdout.readline())
        assert (event["task"], event["event"]) == (two, "SUBMITTED")
        following.send_signal(2)
        following.communicate(timeout=LIMIT_SECONDS)
        assert following.returncode == 130


def test_tsk_29_without_a_log_there_are_no_events(tool):
    tool.submit("t")
    assert tool.run("events") == ""


# ---- Colours ---------------------------------------------------------------------------------------------------------


def on_terminal(command, **environment):
    kept = dict(os.environ)
    os.environ.pop("NO_COLOR", None)
    os.environ.update({"TERM": "xterm", **environment})
    try:
        status, seen = Terminal(command, None).finish()
    finally:
        os.environ.clear()
        os.environ.update(kept)
    assert status == 0, seen
    return seen


def test_sec_11_colours_only_on_a_terminal(tool):
    one = tool.submit("t")
    tool.run("cancel", one)
    assert b"\033[33m" in on_terminal(tool.command("list"))
    assert b"\033" not in on_terminal(tool.command("list"), NO_COLOR="1")
    assert b"\033" not in on_terminal(tool.command("list"), TERM="dumb")
    assert "\033" not in tool.run("list")


# ---- Doctor ---------------------------------------------------------------------------------------------------------


def findings(tool, *words, expect=0):
    document = tool.json("doctor", *words, expect=expect)
    assert document["well"] is (expect == 0)
    return {finding["about"]: (finding["finding"], finding["words"]) for finding in document["findings"]}


def test_sec_04_doctor_looks_at_files_and_records(tool, start_worker):
    tool.submit("t")
    worker = start_worker()
    found = findings(tool, "--full")
    assert found["opening"][0] == "ok" and found["database"][0] == "ok" and found["journal"][0] == "ok"
    assert found["tasks"][1].startswith("1 queued, 0 running") and found["wakes"][0] == "ok"
    assert "1 record read" in found["records"][1] and found["queue"][0] == "ok"
    os.chmod(tool.database, 0o644)
    assert findings(tool)["database"][0] == "note"
    os.chmod(tool.database, 0o600)
    os.chmod(tool.database.parent, 0o777)
    assert findings(tool, expect=1)["directory"][0] == "bad"
    os.chmod(tool.database.parent, stat.S_IRWXU)
    assert "ok" in tool.run("doctor")
    worker.close()


def test_dur_08_doctor_says_what_is_no_database(tool):
    assert findings(tool, expect=1)["opening"][0] == "bad"
    tool.database.write_bytes(b"not a database, " * 1000)
    found = findings(tool, expect=1)
    assert found["database"] == ("bad", "it is no SQLite database") and found["opening"][0] == "bad"


def test_dur_08_doctor_finds_damage_that_nothing_else_has_met(tool):
    tool.run("submit", "--create", "t", "-", given=json.dumps("x" * 200_000))
    with open(tool.database, "r+b") as file:  # the pages behind the head of a long payload
        size = int.from_bytes(file.read(18)[16:], "big")
        pages = tool.database.stat().st_size // size
        assert pages > 40
        for page in range(pages - 10, pages - 5):
            file.seek(page * size)
            file.write(b"\xff" * size)
    assert findings(tool)["opening"][0] == "ok"
    said = findings(tool, "--full", expect=1)["opening"]
    assert said[0] == "bad" and "damaged" in said[1]
