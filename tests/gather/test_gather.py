"""What gather prints, in both languages: the same bytes, and the right ones."""

import os
import threading
import zlib

import pytest

from programs import ROOT, WITHOUT_RIGHTS
from servers import BYTES

USAGE = b"usage: gather URL-LIST [--workers N] [--closers N] [--open M] [--spool DIR]\n"


def line_of(url, content):
    return b"%08x %d %s\n" % (zlib.crc32(content), len(content), url)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def files_below(root, limit):
    """As they come: gather has to put them in order."""
    found = []
    for folder, _, names in os.walk(os.fsencode(root)):
        found += [os.path.join(folder, name) for name in names if os.path.isfile(os.path.join(folder, name))]
    return found[:limit]


def write_list(folder, urls):
    path = os.fsencode(folder) + b"/list"
    with open(path, "wb") as file:
        file.write(b"# a comment, and a blank line\n\n" + b"\n".join(urls) + b"\r\n")
    return path


@pytest.fixture(scope="module")
def real_files():
    files = files_below("/usr/include", 3000) + files_below(os.path.join(ROOT, "capi"), 100)
    assert len(files) > 500
    return {path: content_of(path) for path in files}


def test_ret_02_some_thousand_real_files(program, real_files, tmp_path, choices):
    urls = list(real_files)
    choices.shuffle(urls)
    maximum = choices.choice([1, 2, 5, 64, 500])
    limits = [f"--open={maximum}", f"--workers={choices.randint(1, min(8, maximum))}",
              f"--closers={choices.randint(1, min(8, maximum))}"]
    status, out, err = program.run(write_list(tmp_path, urls), *limits)
    assert out == b"".join(line_of(url, real_files[url]) for url in sorted(urls)), limits
    assert err == b"gather: %d sources, %d bytes, 0 problems\n" % (len(urls), sum(map(len, real_files.values())))
    assert status == 0


def test_bnd_02_everything_that_can_be_named_and_go_wrong(program, servers, tmp_path):
    secret, fifo, blank = tmp_path / "secret", tmp_path / "fifo", tmp_path / "a blank%"
    secret.write_bytes(b"secret")
    secret.chmod(0)
    blank.write_bytes(b"blank")
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(BYTES,), daemon=True)
    writer.start()
    here, raw, http = os.fsencode(tmp_path), b"%d" % servers.raw, b"http://127.0.0.1:%d" % servers.http
    read = {
        here + b"/fifo": BYTES,
        here + b"/a blank%": b"blank",
        b"file://" + here + b"/a%20blank%25": b"blank",
        b"file://localhost" + here + b"/a%20blank%25": b"blank",
        b"/dev/null": b"",
        b"tcp://127.0.0.1:" + raw: BYTES,
        b"tcp://localhost:" + raw + b"/": BYTES,
        http + b"/whole": BYTES,
        http + b"/unannounced": BYTES,
        http + b"/empty": b"",
    }
    problems = {
        here + b"/secret": b"Permission denied",
        here + b"/missing": b"No such file or directory",
        here + b"/\xff\\": b"No such file or directory",
        here: b"Is a directory",
        b"file://elsewhere/x": b"not a URL of a known kind",
        b"file:///x%00": b"not a URL of a known kind",
        b"file:///x%4": b"not a URL of a known kind",
        b"ftp://127.0.0.1/x": b"not a URL of a known kind",
        b"://": b"not a URL of a known kind",
        b"tcp://127.0.0.1": b"not a URL of a known kind",
        b"tcp://127.0.0.1:": b"not a URL of a known kind",
        b"tcp://:1": b"not a URL of a known kind",
        b"tcp://[::1": b"not a URL of a known kind",
        b"tcp://127.0.0.1:%d/path" % servers.raw: b"not a URL of a known kind",
        b"http://127.0.0.1/a blank": b"not a URL of a known kind",
        b"http://127.0.0.1/" + b"x" * 20000: b"not a URL of a known kind",
        b"tcp://127.0.0.1:%d" % servers.nobody: b"Connection refused",
        b"http://127.0.0.1:%d/" % servers.nobody: b"Connection refused",
        http + b"/elsewhere": b"HTTP status 404",
        http + b"/short": b"not the announced size",
        http + b"/chunked": b"not an HTTP/1.0 answer",
        http + b"/garbage": b"not an HTTP answer",
        http + b"/nothing": b"not an HTTP answer",
        http + b"/endless-head": b"not an HTTP answer",
    }
    problems[b"http://127.0.0.1/" + b"x" * 20000] = b"Connection refused"  # it is asked first whether somebody listens
    status, out, err = program.run(write_list(tmp_path, [*read, *problems]), before=WITHOUT_RIGHTS)
    writer.join()
    assert out.splitlines(True) == [line_of(url, read[url]) for url in sorted(read)]
    told = [b"gather: %s: %s\n" % (url, problems[url]) for url in sorted(problems)]
    assert err.splitlines(True) == told + [b"gather: %d sources, %d bytes, %d problems\n" % (
        len(read), sum(map(len, read.values())), len(problems))]
    assert status == 1


def test_ret_05_spooled_copies_are_whole_or_not_there(program, real_files, servers, tmp_path):
    urls = sorted([*list(real_files)[:200], b"/missing", b"http://127.0.0.1:%d/short" % servers.http,
                   b"tcp://127.0.0.1:%d" % servers.raw])
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "000002").symlink_to("/dev/full")
    status, out, err = program.run(write_list(tmp_path, urls), "--spool", spool, "--open", "5")
    full, missing, short = urls[1], b"/missing", b"http://127.0.0.1:%d/short" % servers.http
    reasons = {full: b"No space left on device", missing: b"No such file or directory", short: b"not the announced size"}
    whole = {url: real_files.get(url, BYTES) for url in urls if url not in reasons}
    assert out == b"".join(line_of(url, content) for url, content in whole.items())
    assert err.splitlines()[:-1] == [b"gather: %s: %s" % (url, reasons[url]) for url in sorted(reasons)]
    assert status == 1
    kept = {b"%06d" % number: whole[url] for number, url in enumerate(urls, 1) if url in whole}
    assert sorted(os.fsencode(path.name) for path in spool.iterdir()) == sorted(kept)
    assert [name for name in kept if content_of(os.path.join(os.fsencode(spool), name)) != kept[name]] == []


def test_ret_06_an_error_of_a_close_is_told_by_its_cleanup(program, real_files, slow_close, tmp_path):
    urls = sorted(real_files)[:20]
    environment = dict(os.environ, LD_PRELOAD=str(slow_close), GATHER_BAD="/000007")
    status, out, err = program.run(write_list(tmp_path, urls), "--spool", tmp_path / "spool", env=environment)
    assert out == b"".join(line_of(url, real_files[url]) for url in urls)  # it was read all the same
    assert err == b"gather: %s: close: Input/output error\ngather: 20 sources, %d bytes, 1 problems\n" % (
        urls[6], sum(len(real_files[url]) for url in urls))
    assert status == 1


def test_bnd_02_a_silent_server_holds_up_its_own_worker_only(program, real_files, servers, tmp_path):
    servers.may_speak.clear()
    urls = [b"tcp://127.0.0.1:%d" % servers.silent, *list(real_files)[:300]]
    process = program.start(write_list(tmp_path, urls), "--workers=2", "--open=4")
    servers.asked.acquire(timeout=30)
    others = b"".join(process.stdout.readline() for _ in urls[1:])  # all of them come while the server is silent
    assert others == b"".join(line_of(url, real_files[url]) for url in sorted(urls[1:]))
    servers.may_speak.set()
    out, err = process.communicate(timeout=30)
    assert out == line_of(urls[0], b"at last")
    assert process.returncode == 0, err


@pytest.mark.parametrize("arguments, reason", [
    ([], b"URL-LIST is missing"),
    (["a", "b"], b"only one URL-LIST can be given"),
    (["a", "--workers"], b"--workers needs a value"),
    (["a", "--workers=0"], b"--workers must be a number from 1 to 1024, not '0'"),
    (["a", "--closers", "1025"], b"--closers must be a number from 1 to 1024, not '1025'"),
    (["a", "--open", "-1"], b"--open must be a number from 1 to 65536, not '-1'"),
    (["a", "--open=99999999999999999999"], b"--open must be a number from 1 to 65536, not '99999999999999999999'"),
    (["a", "--open=2", "--workers=3"], b"--open must be at least --workers"),
    (["a", "--open=2", "--closers=3"], b"--open must be at least --closers"),
    (["a", "--spool"], b"--spool needs a value"),
    (["a", "--no-such"], b"unknown option: --no-such"),
])
def test_what_is_wrong_with_the_arguments(program, arguments, reason):
    assert program.run(*arguments) == (2, b"", b"gather: " + reason + b"\n" + USAGE)


def test_what_is_wrong_with_the_list_and_the_output(program, tmp_path):
    assert program.run("--help") == (0, USAGE, b"")
    assert program.run(tmp_path / "missing")[::2] == (2, b"gather: %s: No such file or directory\n" % bytes(
        tmp_path / "missing"))
    (tmp_path / "nul").write_bytes(b"a\0b\n")
    assert program.run(tmp_path / "nul")[::2] == (2, b"gather: %s: not a list of URLs\n" % bytes(tmp_path / "nul"))
    (tmp_path / "empty").write_bytes(b"")
    assert program.run(tmp_path / "empty") == (0, b"", b"gather: 0 sources, 0 bytes, 0 problems\n")
    assert program.run(tmp_path / "empty", "--spool", "/dev/null")[::2] == (2, b"gather: /dev/null: Not a directory\n")
    (tmp_path / "list").write_bytes(b"/dev/null\n")
    with open("/dev/full", "wb") as full:
        status, _, err = program.run(tmp_path / "list", stdout=full)
    assert (status, err) == (2, b"gather: standard output: No space left on device\n")
