"""Looking: list, show, tree and why."""

import re
import time

import pytest


def test_tsk_29_list_and_show_say_what_was_submitted(tool):
    one = tool.submit("mail.send", '{"to": "you"}', "--key", "you", "--attempts", "5", "--priority", "7")
    two = tool.submit("report", "--after", "1h")
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", one)
    lines = tool.run("list").splitlines()
    assert lines[0].split() == ["ID", "STATUS", "TRY", "AGE", "TYPE", "KEY", "WHAT"]
    assert [line.split()[:2] for line in lines[1:]] == [[one, "QUEUED"], [two, "QUEUED"]]
    assert "due in 59 min" in lines[2]
    shown = tool.run("show", one)
    for words in (one, "mail.send", "QUEUED", "you", "7", '{"to": "you"}', "0 of 5"):
        assert words in shown
    record = tool.json("show", one)
    assert (record["id"], record["type"], record["key"], record["payload"]) == (one, "mail.send", "you", {"to": "you"})
    assert (record["status"], record["priority"], record["max_attempts"]) == ("QUEUED", 7, 5)
    assert [task["id"] for task in tool.json("list")] == [one, two]
    assert tool.json("list", "--type", "report")[0]["id"] == two
    assert tool.json("list", "--status", "running") == []
    assert tool.run("list", "--status", "running") == "no tasks\n"
    assert "and more" in tool.run("list", "--limit", "1")
    assert len(tool.json("list", "--limit", "1")) == 1
    assert [task["id"] for task in tool.json("list", "--after", one)] == [two]


def test_tsk_24_what_is_json_stays_as_it_is(tool):
    payload = '{"a" : [1.50, 1e400,\n "\\u00e9"], "a": null}'
    one = tool.submit("odd", payload)
    assert payload in tool.run("--json", "show", one)
    assert payload.replace("\n", " ") in tool.run("show", one)
    assert tool.run("submit", "odd", "{", expect=1).startswith("nocter: ")
    assert tool.run("submit", "odd", "-", given='["from stdin"]').strip() in tool.run("list")


def test_tsk_29_a_beginning_that_no_other_task_has_names_a_task(tool):
    ids = [tool.submit("t") for _ in range(3)]
    plain = [identity.replace("-", "") for identity in ids]
    for identity, digits in zip(ids, plain):
        others = [other for other in plain if other != digits]
        size = next(size for size in range(1, 33) if not any(other.startswith(digits[:size]) for other in others))
        assert tool.json("show", digits[:size])["id"] == identity
        assert tool.json("show", digits[:size].upper())["id"] == identity
        assert tool.json("show", identity[:size + 6])["id"] == identity or size > 26
    assert "more than one" in tool.run("show", ids[0][:2], expect=1)
    assert "begins with" in tool.run("show", "ffff", expect=1)
    assert tool.run("show", "ffffffff-ffff-7fff-bfff-ffffffffffff", expect=1).startswith("nocter: ")
    assert "is no task's id" in tool.run("show", "xyz", expect=2)
    assert "is no task's id" in tool.run("show", "0" * 33, expect=2)


def test_tsk_10_a_tree_is_shown_from_any_of_its_tasks(tool, start_worker):
    root = tool.submit("parent")
    worker = start_worker()
    run, _ = worker.claim("parent")
    children = [worker.tell("child", run, "child", f"key {i}")[0] for i in range(3)]
    worker.tell("park", run, "children")
    one, first = worker.claim("child")
    grandchild = worker.tell("child", one, "grandchild", "-")[0]
    worker.tell("state", one, '{"done":3,"total":4}')
    shown = tool.run("tree", root).splitlines()
    assert [line.split()[0 if i == 0 else -1] != "" for i, line in enumerate(shown)] and len(shown) == 5
    assert shown[0].startswith("SUSPENDED parent") and "waits for 3 of 3 children" in shown[0]
    below = [line for line in shown if line.startswith(("├─ ", "└─ "))]
    assert [line.split()[2] for line in below] == ["child"] * 3 and below[-1].startswith("└─ ")
    assert any("75 %" in line and first in line for line in below)
    assert [line for line in shown if grandchild in line][0].lstrip("│ ").startswith("└─ QUEUED grandchild")
    assert grandchild in tool.run("tree", first) and root not in tool.run("tree", first)
    assert tool.run("tree") == tool.run("tree", root)
    assert "1 child" in tool.run("tree", root, "--depth", "1") and grandchild not in tool.run("tree", root, "--depth", "1")
    assert "2 more" in tool.run("tree", root, "--children", "1")
    document = tool.json("tree", root)
    assert [child["id"] for child in document["below"]] == sorted(children)
    assert [tree["id"] for tree in tool.json("tree")] == [root]
    other = tool.submit("other")
    assert tool.run("tree").count(other) == 1 and other not in tool.run("tree", "--children", "1")
    assert len(tool.json("tree", "--children", "1")) == 2
    tool.run("cancel", other)
    tool.run("purge", "--all")
    assert {task["id"] for task in tool.json("list", "--tree", root)} == {root, *children, grandchild}
    assert {task["id"] for task in tool.json("list", "--parent", root)} == set(children)
    assert [task["id"] for task in tool.json("list", "--roots")] == [root]


def why(tool, identity):
    """What programs are told, and what people are: the same, but for how long ago things were."""
    document = tool.json("why", identity)
    words = tool.run("why", identity)
    assert re.split("[.:] ", document["words"])[0] in words
    return document, words


def test_tsk_32_a_queued_task_waits_for_a_worker_or_its_time(tool, start_worker):
    one, two = tool.submit("served"), tool.submit("served")
    later = tool.submit("served", "--after", "1h")
    document, words = why(tool, two)
    assert document["waits_for"] == "worker" and document["tasks"] == []
    assert "Nobody works on a task of this type now" in words and "1 task of this type will be claimed before it" in words
    document, words = why(tool, later)
    assert document["waits_for"] == "time" and document["until_ms"] > time.time() * 1000 and "in 59 min" in words
    worker = start_worker()
    run, claimed = worker.claim("served")
    assert claimed == one
    _, words = why(tool, two)
    assert "worker of the tests" in words and "before it" not in words
    document, words = why(tool, one)
    assert document["waits_for"] == "worker" and document["node"] == "worker of the tests" and "its lease lasts until" in words
    worker.tell("done", run, "{}")
    document, words = why(tool, one)
    assert document["waits_for"] == "nothing" and "it ended at" in words


def test_tsk_32_a_suspended_task_names_what_it_waits_for(tool, start_worker):
    worker = start_worker()
    target = tool.submit("target")
    roots = {name: tool.submit(name) for name in ("children", "tasks", "mail", "timer")}
    runs = {name: worker.claim(name)[0] for name in roots}
    child = worker.tell("child", runs["children"], "child", "-")[0]
    worker.tell("park", runs["children"], "children")
    worker.tell("park", runs["tasks"], target)
    worker.tell("park", runs["mail"], "notified")
    worker.tell("park", runs["timer"], 3600000)
    document, words = why(tool, roots["children"])
    assert document["waits_for"] == "children" and [task["id"] for task in document["tasks"]] == [child]
    assert "1 of 1 have not ended" in words and child in words and "serves the type 'child'" in words
    document, words = why(tool, roots["tasks"])
    assert document["waits_for"] == "tasks" and [task["id"] for task in document["tasks"]] == [target]
    assert "tasks that it named" in words and "serves the type 'target'" in words
    document, words = why(tool, roots["mail"])
    assert document["waits_for"] == "message" and "nocter notify" in words
    document, words = why(tool, roots["timer"])
    assert document["until_ms"] > time.time() * 1000 and "it wakes in any case" in words


def test_tsk_32_why_follows_to_the_end_of_the_chain(tool, start_worker):
    worker = start_worker()
    last = tool.submit("last")
    chain = [tool.submit(f"step{i}") for i in range(3)]
    before = last
    for i, identity in enumerate(chain):
        run, claimed = worker.claim(f"step{i}")
        assert claimed == identity
        worker.tell("park", run, before)
        before = identity
    words = tool.run("why", chain[-1])
    assert "In the end" in words and last in words and "serves the type 'last'" in words


def test_tsk_32_a_task_of_a_killed_worker_waits_for_its_lease(tool, start_worker):
    one = tool.submit("fragile")
    worker = start_worker()
    worker.claim("fragile")
    worker.kill()
    time.sleep(2.2)  # the lease of the worker is 2 s; the tool itself rescues nobody
    document, words = why(tool, one)
    if document["status"] == "RUNNING":
        assert document["waits_for"] == "lease" and "Its worker is lost" in words
    other = start_worker()
    _, again = other.claim("fragile")
    assert again == one
    assert tool.json("show", one)["rescues"] == 1


def test_tsk_15_a_pause_after_a_failed_try_is_explained_and_can_be_ended(tool, start_worker):
    one = tool.submit("flaky", "--attempts", "3")
    worker = start_worker()
    run, _ = worker.claim("flaky")
    worker.tell("fail", run, "Boom", 3600000, "it went boom")
    document, words = why(tool, one)
    assert document["waits_for"] == "time" and "Boom: it went boom" in words and "nocter retry" in words
    assert "failed before: Boom" in tool.run("list")
    assert tool.run("retry", one).strip() == one
    run, again = worker.claim("flaky")
    assert again == one
    worker.tell("fail", run, "Boom", "never", "again")
    document, words = why(tool, one)
    assert document["waits_for"] == "nothing" and "It failed: Boom: again" in words
    assert tool.json("show", one)["failure"]["kind"] == "Boom"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_sec_11_what_a_task_is_called_does_nothing_to_the_terminal(tool, start_worker, width):
    hostile = '{"\\u001b]0;owned\\u0007":"\\u009b31m","wide":"漢字","turned":"\\u202eabc","mark":"e\\u0301","tab":"a\tb"}'
    raw = hostile.replace("\\u009b", "\u009b").replace("\\u202e", "\u202e").replace("\t", "\\t")
    one = tool.submit("t", raw, "--key", "a\u202eb\u200fc")
    worker = start_worker()
    run, _ = worker.claim("t")
    worker.tell("state", run, raw)
    environment = {"COLUMNS": str(width)}
    for command in (["list"], ["show", one], ["tree", one], ["why", one], ["watch", "--once"]):
        text = tool.run(*command, environment=environment)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]", text), (command, text)
    assert "\\u{202e}" in tool.run("list")
    assert tool.json("show", one)["state"]["turned"] == "\u202eabc"


def test_tsk_32_why_says_how_many_are_enough_and_whether_a_failure_is(tool, start_worker):
    worker = start_worker()
    all_of, any_of = tool.submit("all"), tool.submit("any")
    for kind, until in (("all", "children"), ("any", "first-child")):
        run, _ = worker.claim(kind)
        for _ in range(3):
            worker.tell("child", run, kind + "-child", "-")
        worker.tell("park", run, until)
    document, words = why(tool, all_of)
    assert (document["open"], document["need"], document["wake_on_failure"]) == (3, 3, False)
    assert "when all of them have ended." in words
    document, words = why(tool, any_of)
    assert (document["open"], document["need"], document["wake_on_failure"]) == (3, 1, True)
    assert "when 1 more of them has ended, or as soon as one fails or is cancelled." in words
    record = tool.json("show", any_of)
    assert (record["waiting_need"], record["wake_on_failure"]) == (1, True)
    run, _ = worker.claim("any-child")
    worker.tell("done", run, "1")
    assert tool.json("why", any_of)["waits_for"] == "worker" and tool.json("show", any_of)["waiting_need"] == 0
