"""What mirror brings over, what it says of what it cannot, and how it ends."""

import os
import signal
import socket
import stat
import time

import pytest

import trees
from programs import USAGE, WITHOUT_RIGHTS, Summary, soon, stop, wait_until_equal


def in_tree(root, path):
    return os.path.join(root, path)


def one_of_everything(root):
    trees.write(in_tree(root, b"file"), b"content\n")
    trees.write(in_tree(root, b"empty"))
    trees.write(in_tree(root, b"large"), os.urandom(1 << 20) + b"tail")
    trees.write(in_tree(root, b"folder/in/folder/file"), b"inner")
    os.makedirs(in_tree(root, b"nothing/in/here"))
    for name in [b"\xff\xfe", b"half-\xc3", "ü-€-😀".encode(), b"new\nline", b"back\\slash", b" blank ", b"-dash",
                 b"x" * 255]:
        trees.write(in_tree(root, b"names \xff/" + name), name)
        os.makedirs(in_tree(root, b"names \xff/folder") + name[:200])
    for number, target in enumerate([b"file", b"nowhere", b"..", b"/etc/passwd", b"folder", b"\xff\n", b"y" * 1000]):
        os.symlink(target, in_tree(root, b"link-%d" % number))
    for mode in [0o000, 0o400, 0o444, 0o600, 0o644, 0o777, 0o1755]:
        trees.write(in_tree(root, b"modes/file-%o" % mode), b"%o" % mode)
        os.chmod(in_tree(root, b"modes/file-%o" % mode), mode)
        os.makedirs(in_tree(root, b"modes/folder-%o" % mode))
        os.chmod(in_tree(root, b"modes/folder-%o" % mode), mode)
    deep = b"/".join([b"deep" * 50] * 15)
    trees.write(in_tree(root, deep + b"/file"), b"far down")
    os.utime(in_tree(root, b"file"), (1, 1))
    os.utime(in_tree(root, b"empty"), (4000000000, 4000000000))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads files of mode 0")
def test_key_01_one_of_everything(program, source, target):
    one_of_everything(source)
    status, err = program.run(source, target, "--once")
    assert status == 0, err
    trees.assert_equal(source, target)
    summary = Summary(err)
    assert (summary.before, summary.problems) == (b"", 0)
    assert summary.passes >= len(trees.holds(source))


def test_key_01_what_was_there_before_goes_or_changes(program, source, target):
    """Each kind in the place of each other kind."""
    def folder(path):
        os.makedirs(in_tree(path, b"inner/most"))
        trees.write(in_tree(path, b"inner/file"), b"old")

    kinds = [lambda path: None, lambda path: trees.write(path, b"a file"), lambda path: os.symlink(b"x", path), folder]
    os.mkdir(target)
    for before, make_before in enumerate(kinds):
        for after, make_after in enumerate(kinds):
            make_before(in_tree(target, b"%d-%d" % (before, after)))
            make_after(in_tree(source, b"%d-%d" % (before, after)))
    trees.write(in_tree(target, b".mirror-work/left/over"), b"of one that was killed")
    status, err = program.run(source, target, "--once")
    assert (status, Summary(err).before) == (0, b"")
    trees.assert_equal(source, target)


def test_key_01_changes_are_seen_as_they_come(program, place, source, target):
    process = program.start(source, target, "--resync", "0")

    def settled():
        wait_until_equal(process, source, target)

    trees.write(in_tree(source, b"a/b/c/file"), b"one")
    settled()
    with open(in_tree(source, b"a/b/c/file"), "ab") as file:
        file.write(b"two")
        file.flush()
        settled()  # it is still open
        file.truncate(2)
        settled()
    os.chmod(in_tree(source, b"a/b/c/file"), 0o640)
    os.chmod(in_tree(source, b"a/b"), 0o700)
    settled()
    os.rename(in_tree(source, b"a"), in_tree(source, b"z"))
    settled()
    trees.write(in_tree(source, b"z/b/c/file"), b"after the move")
    settled()
    # Out of the tree and back, as if it had never been away.
    os.rename(in_tree(source, b"z"), in_tree(place, b"outside"))
    settled()
    os.rename(in_tree(place, b"outside"), in_tree(source, b"z"))
    settled()
    os.rename(in_tree(source, b"z/b/c"), in_tree(source, b"c"))
    os.rename(in_tree(source, b"z"), in_tree(source, b"c/z"))
    trees.write(in_tree(source, b"c/z/b/new"), b"below what moved")
    settled()
    os.unlink(in_tree(source, b"c/file"))
    os.symlink(b"z", in_tree(source, b"c/file"))
    settled()
    os.unlink(in_tree(source, b"c/z/b/new"))
    os.rmdir(in_tree(source, b"c/z/b"))
    settled()
    summary = stop(process)
    assert (summary.before, summary.problems, summary.rounds) == (b"", 0, 0)
    trees.assert_equal(source, target)


def test_key_01_what_is_copied_when_it_goes_is_not_put_in_place(program, place, source, target):
    """Nothing tells of a file whose folder is renamed; its copy was begun before, and ends after it."""
    trees.write(in_tree(source, b"a/b/file"), os.urandom(64 << 20))
    process = program.start(source, target, "--workers", "2", "--resync", "0")
    work = in_tree(target, trees.WORK)
    deadline = time.monotonic() + 60
    while not os.path.isdir(work) or not os.listdir(work):
        assert time.monotonic() < deadline and process.poll() is None
    process.send_signal(signal.SIGSTOP)
    os.rename(in_tree(source, b"a"), in_tree(place, b"outside"))
    process.send_signal(signal.SIGCONT)
    soon(lambda: not os.path.lexists(in_tree(target, b"a")) and not os.listdir(work), "the end of the copy", 20)
    time.sleep(0.2)
    assert (stop(process).before, os.listdir(target)) == (b"", [])


def test_key_10_a_round_finds_what_nobody_told(program, place, source, target):
    """Written under a name that is not in SRC."""
    trees.write(in_tree(source, b"file"), b"before")
    other = in_tree(place, b"other-name-" + program.language.encode())
    os.link(in_tree(source, b"file"), other)
    process = program.start(source, target, "--resync", "1")
    wait_until_equal(process, source, target)
    time.sleep(0.3)  # the copy has been looked at once more
    trees.write(other, b"after it")
    wait_until_equal(process, source, target)
    assert stop(process).rounds > 0


def test_key_06_what_cannot_be_read_is_said_and_stops_nothing_else(program, source, target):
    trees.write(in_tree(source, b"closed"), b"secret")
    os.chmod(in_tree(source, b"closed"), 0)
    trees.write(in_tree(source, b"folder/inner"), b"secret")
    os.chmod(in_tree(source, b"folder"), 0)
    os.mkfifo(in_tree(source, b"fi\nfo"))
    with socket.socket(socket.AF_UNIX) as end:
        here = os.getcwd()
        os.chdir(source)
        end.bind(b"socket")
        os.chdir(here)
    trees.write(in_tree(source, b".mirror-work/mine"), b"")
    trees.write(in_tree(source, b"open"), b"public")
    status, err = program.run(source, target, "--once", before=WITHOUT_RIGHTS)
    summary = Summary(err)
    said = sorted(summary.before.splitlines())
    kind = b"neither a file nor a link nor a directory"
    own = b"the name of mirror's own work folder"
    assert set(said) == {b"mirror: closed: Permission denied", b"mirror: folder: Permission denied",
                         b"mirror: fi\\nfo: " + kind, b"mirror: socket: " + kind, b"mirror: .mirror-work: " + own}
    assert (status, summary.problems) == (1, 5)
    assert sorted(os.listdir(target)) == [b"open"]


def test_key_01_directories_that_nobody_may_write_to(program, source, target):
    """Their modes are mirrored, and so is what is in them."""
    def closed(mode):
        for folder in (b"ro/inner", b"ro"):
            os.chmod(in_tree(source, folder), mode)

    def mirrored():
        status, err = program.run(source, target, "--once", before=WITHOUT_RIGHTS)
        assert (status, Summary(err).before) == (0, b"")
        trees.assert_equal(source, target)

    for name in (b"ro/one", b"ro/inner/two", b"ro/inner/gone/three"):
        trees.write(in_tree(source, name), name)
    closed(0o555)
    mirrored()
    closed(0o755)
    trees.write(in_tree(source, b"ro/inner/new/four"), b"new")
    trees.write(in_tree(source, b"ro/one"), b"another content")
    trees.remove(in_tree(source, b"ro/inner/gone"))
    closed(0o555)
    mirrored()
    trees.remove(in_tree(source, b"ro"))
    mirrored()


def test_key_08_gen_07_ctrl_c_stops_a_copy_and_leaves_nothing_half_done(program, source, target):
    trees.write(in_tree(source, b"huge"))
    os.truncate(in_tree(source, b"huge"), 1 << 40)
    trees.write(in_tree(source, b"small"), b"content")
    process = program.start(source, target, "--workers", "2")
    work = in_tree(target, trees.WORK)

    def copying():
        return os.path.isdir(work) and any(os.stat(in_tree(work, name)).st_size > 1 << 20 for name in os.listdir(work))

    soon(copying, "a copy that runs")
    before = time.monotonic()
    summary = stop(process)
    assert time.monotonic() - before < 5
    assert (summary.before, summary.problems) == (b"", 0)
    assert sorted(os.listdir(target)) == [b"small"]


def test_key_08_sigterm_ends_it_too(program, source, target):
    process = program.start(source, target)
    wait_until_equal(process, source, target)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 143 and b"mirror: interrupted\n" in err


def test_killed_and_begun_again(program, source, target):
    for number in range(300):
        trees.write(in_tree(source, b"folder-%d/file" % (number % 7)) + b"%d" % number, b"%d" % number * 1000)
    for pause in (0.005, 0.02):
        process = program.start(source, target)
        time.sleep(pause)
        process.kill()
        process.communicate()
    status, err = program.run(source, target, "--once")
    assert status == 0, err
    trees.assert_equal(source, target)


def test_key_01_a_link_in_the_way_is_not_followed(program, place, source, target):
    """DST has a link to elsewhere where SRC has a directory: nothing is written elsewhere."""
    elsewhere = in_tree(place, b"elsewhere")
    os.mkdir(elsewhere)
    os.mkdir(target)
    os.symlink(elsewhere, in_tree(target, b"folder"))
    trees.write(in_tree(source, b"folder/file"), b"content")
    status, err = program.run(source, target, "--once")
    assert status == 0, err
    assert os.listdir(elsewhere) == []
    trees.assert_equal(source, target)


def test_key_01_a_set_user_id_is_not_given_to_another_owner(program, source, target):
    trees.write(in_tree(source, b"program"), b"content")
    os.chmod(in_tree(source, b"program"), 0o6755)
    assert program.run(source, target, "--once")[0] == 0
    assert stat.S_IMODE(os.stat(in_tree(target, b"program")).st_mode) == 0o755


def test_only_one_mirror_writes_to_a_tree(program, source, target):
    process = program.start(source, target)
    wait_until_equal(process, source, target)
    status, err = program.run(source, target, "--once")
    assert (status, err) == (2, b"mirror: " + target + b": another mirror writes here\n")
    stop(process)


def test_trees_that_lie_in_each_other(program, source):
    for first, second in [(b"", b"/inner"), (b"", b""), (b"/inner", b"")]:
        os.makedirs(source + b"/inner", exist_ok=True)
        status, err = program.run(source + first, source + second)
        assert (status, err) == (2, b"mirror: " + source + second + b": one of SRC and DST lies in the other\n")
    assert os.listdir(source) == [b"inner"]


def test_wrong_arguments(program, source, target):
    cases = {
        (): b"SRC is missing",
        (source,): b"DST is missing",
        (source, target, source): b"only SRC and DST can be given",
        (source, target, "--what"): b"unknown option: --what",
        (source, target, "--workers"): b"--workers needs a number",
        (source, target, "--workers=0"): b"--workers must be a number from 1 to 1024, not '0'",
        (source, target, "--workers", "1025"): b"--workers must be a number from 1 to 1024, not '1025'",
        (source, target, "--keys", "1x"): b"--keys must be a number from 1 to 1048576, not '1x'",
        (source, target, "--resync="): b"--resync must be a number from 0 to 31536000, not ''",
    }
    for arguments, reason in cases.items():
        assert program.run(*arguments) == (2, b"mirror: " + reason + b"\n" + USAGE)
    status, err = program.run(source + b"/none", target)
    assert (status, err) == (2, b"mirror: " + source + b"/none: No such file or directory\n")
    assert not os.path.exists(target)


def test_gen_01_nothing_leaks_in_c(program_of, place, source, target):
    valgrind = ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible",
                "--error-exitcode=99", b"--log-file=" + in_tree(place, b"log")]
    one_of_everything(source)
    trees.write(in_tree(target, b"old/file"), b"in the way")
    status, err = program_of("c").run(source, target, "--once", "--keys=4", before=valgrind)
    with open(in_tree(place, b"log"), "rb") as log:
        assert status == (0 if os.geteuid() == 0 else 1), (err, log.read())
