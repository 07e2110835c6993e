"""What treesum prints, in all three languages: the same bytes, and the right ones."""

import functools
import os
import resource
import subprocess
import threading

import pytest

import trees
from programs import LANGUAGES, ROOT, USAGE, WITHOUT_RIGHTS

# Files that come with every system, and the project's own.
REAL_TREES = ["/usr/include", os.path.join(ROOT, "capi"), os.path.join(ROOT, "cpp")]


def rhash(root):
    """What another program says of every file below root: lines as treesum writes them, and the sum of the sizes."""
    files = trees.regular_files(os.fsencode(root))
    assert files, f"{root} is empty"
    names = b"".join(path + b"\0" for path in files)
    lines = subprocess.run(["xargs", "-0", "rhash", "--crc32", "-p", "%{crc32} %s %p\\n"], cwd=root, input=names,
                           stdout=subprocess.PIPE, check=True).stdout
    return lines, sum(int(line.split(b" ", 2)[1]) for line in lines.splitlines())


def same(got, expected):
    """Compares line by line, so that a failure shows the line and not two long texts."""
    for mine, right in zip(got.splitlines(True), expected.splitlines(True)):
        assert mine == right
    assert got == expected


@pytest.fixture(scope="session")
def rhash_of():
    """The same, asked once for each tree."""
    return functools.lru_cache(maxsize=None)(rhash)


@pytest.mark.parametrize("root", REAL_TREES)
def test_blk_14_real_trees_have_the_sums_that_rhash_finds(program, root, rhash_of):
    lines, size = rhash_of(root)
    status, out, err = program.run(root)
    same(out, lines)
    same(err, b"treesum: %d files, %d bytes, 0 problems\n" % (lines.count(b"\n"), size))
    assert status == 0


def test_bnd_02_the_three_languages_print_the_same_bytes(program_of, choices):
    workers = choices.randint(1, 6)
    arguments = ["/usr/share/doc", f"--workers={workers}", "--jobs", str(choices.randint(workers, 50))]
    first, second, third = (program_of(language).run(*arguments) for language in LANGUAGES)
    assert first[1].count(b"\n") > 100
    for other in (second, third):
        assert other[0] == first[0]
        same(other[1], first[1])
        same(other[2], first[2])


def test_gen_01_every_kind_of_entry_is_summed_or_reported_in_order(program, tricky):
    status, out, err = program.run(tricky.root, before=WITHOUT_RIGHTS)
    same(out, tricky.out)
    same(err, tricky.err)
    assert status == 1


def test_gen_01_reports_stand_among_the_lines_where_they_belong(program, tricky):
    status, out, err = program.run(tricky.root, "--jobs", "32", before=["sh", "-c", 'exec "$@" 2>&1', "sh", *WITHOUT_RIGHTS])
    same(out, tricky.merged)
    assert (status, err) == (1, b"")


@pytest.mark.parametrize("jobs", [1, 2, 7, 65536])
def test_blk_03_the_order_is_the_same_for_every_bound(program, tricky, choices, jobs):
    workers = choices.randint(1, min(jobs, 20))
    status, out, err = program.run("--jobs", str(jobs), tricky.root, "--workers", str(workers), before=WITHOUT_RIGHTS)
    same(out, tricky.out)
    same(err, tricky.err)
    assert status == 1


def test_gen_01_a_tree_without_problems_is_status_zero(program, plain):
    assert program.run(plain.root) == (0, plain.out, plain.err)
    here = os.path.relpath(plain.root)
    assert program.run(here) == (0, plain.out, plain.err)
    assert program.run(here + b"///") == (0, plain.out, plain.err)
    assert program.run(b".", cwd=plain.root) == (0, plain.out, plain.err)


def test_gen_01_dir_itself_may_be_a_link_or_begin_with_a_dash(program, plain, place):
    link = os.path.join(place, b"-link-" + program.language.encode())
    os.symlink(plain.root, link)
    assert program.run(link) == (0, plain.out, plain.err)
    assert program.run("--", os.path.basename(link), cwd=place) == (0, plain.out, plain.err)


def test_gen_01_an_empty_tree_gives_only_the_summary(program, tmp_path):
    assert program.run(tmp_path) == (0, b"", b"treesum: 0 files, 0 bytes, 0 problems\n")


def test_gen_01_a_folder_of_twenty_thousand_files(program, place):
    root = os.path.join(place, b"wide")
    if not os.path.exists(root):
        trees.many(root, 1, 20000)
    expected = trees.Expected(root)
    for path in trees.regular_files(root):
        expected.summed(path, trees.zlib.crc32(path), len(path))
    status, out, err = program.run(root)
    same(out, expected.out)
    same(err, expected.end().err)
    assert (status, expected.files) == (0, 20000)


def few_descriptors():
    """No descriptor is kept open for each level, no stack is used for each level."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))


def test_gen_01_a_tree_five_hundred_levels_deep(program, place):
    root = os.path.join(place, b"deep-" + program.language.encode())
    expected = trees.deep(root, 500, b"level")
    assert (expected.files, expected.problems) == (500, 0)
    status, out, err = program.run(root, "--workers", "2", preexec_fn=few_descriptors)
    same(out, expected.out)
    same(err, expected.err)
    assert status == 0


def test_gen_01_paths_too_long_for_the_system_are_reported(program, place):
    root = os.path.join(place, b"too-deep-" + program.language.encode())
    expected = trees.deep(root, 2500, b"x")
    assert (expected.files, expected.problems) == (2048, 2)  # the next file, and the next folder
    status, out, err = program.run(root, "--workers", "2", preexec_fn=few_descriptors)
    same(out, expected.out)
    same(err, expected.err)
    assert status == 1


def test_gen_01_a_file_that_changes_while_it_is_read_is_reported(program, place):
    root = os.path.join(place, b"growing-" + program.language.encode())
    path = os.path.join(root, b"log")
    trees.sparse(path, 300 << 20)
    trees.write(os.path.join(root, b"quiet"), b"quiet")
    done = threading.Event()

    def grow():
        with open(path, "ab", buffering=0) as log:
            while not done.wait(0.0005):  # many times while 300 MiB are read
                log.write(b"one more line\n")

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        status, out, err = program.run(root)
    finally:
        done.set()
        writer.join()
    assert out == b"%08x 5 quiet\n" % trees.zlib.crc32(b"quiet")
    assert err == b"treesum: log: changed while it was read\ntreesum: 1 files, 5 bytes, 1 problems\n"
    assert status == 1


def peak_of(program, root):
    """The most memory in KiB that the program held at any time, and how many lines it wrote."""
    process = program.start(root, "--workers", "2", "--jobs", "8")
    peak, lines = 0, 0
    with process:
        # A little at a time, and a look after each: what the pipe does not hold keeps the program alive and at its work meanwhile.
        while part := process.stdout.read1(1 << 12):
            lines += part.count(b"\n")
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                peak = max([peak] + [int(line.split()[1]) for line in status if line.startswith("VmHWM")])
        process.stderr.read()
    assert process.returncode == 0
    return peak, lines


def test_blk_01_memory_does_not_grow_with_the_tree(program, place):
    small, large = os.path.join(place, b"small"), os.path.join(place, b"large")
    if not os.path.exists(small):
        trees.many(small, 20, 100)
        trees.many(large, 400, 100)
    peak_small, lines_small = peak_of(program, small)
    peak_large, lines_large = peak_of(program, large)
    assert (lines_small, lines_large) == (2000, 40000)
    # The results alone, kept to the end, would be 40,000 lines and their objects: far more than this.
    assert peak_large - peak_small < 1500, f"{peak_small} KiB for 2,000 files, {peak_large} KiB for 40,000"


# ---- How it is called ------------------------------------------------------------------------------------------


WRONG = [
    ([], b"DIR is missing"),
    (["--workers", "2"], b"DIR is missing"),
    (["a", "b"], b"only one DIR can be given"),
    (["--fast", "a"], b"unknown option: --fast"),
    (["-j4", "a"], b"unknown option: -j4"),
    (["--work", "2", "a"], b"unknown option: --work"),
    (["--workersx=2", "a"], b"unknown option: --workersx=2"),
    (["--help=x", "a"], b"unknown option: --help=x"),
    ([b"--\xff\n\\", "a"], b"unknown option: --\xff\\n\\\\"),
    (["a", "--workers"], b"--workers needs a number"),
    (["a", "--jobs"], b"--jobs needs a number"),
    (["a", "--jobs=1", "--workers", "2"], b"--jobs must be at least --workers"),
    (["--jobs=3", "--workers=4", "a"], b"--jobs must be at least --workers"),
]
for text in [b"", b"0", b"1025", b"-1", b"+1", b" 1", b"1 ", b"0x1", b"1.0", b"two", b"1_0", b"99999999999999999999",
             "١".encode(), b"\xff"]:
    WRONG.append((["a", "--workers", text], b"--workers must be a number from 1 to 1024, not '%s'" % text))
for text in [b"", b"0", b"65537", b"-1", b"1e3", b"4294967297", b"18446744073709551617"]:
    WRONG.append((["a", b"--jobs=" + text], b"--jobs must be a number from 1 to 65536, not '%s'" % text))


@pytest.mark.parametrize("arguments, message", WRONG)
def test_gen_06_a_wrong_call_is_told_and_nothing_is_done(program, arguments, message, tmp_path):
    (tmp_path / "a").mkdir()
    assert program.run(*arguments, cwd=tmp_path) == (2, b"", b"treesum: " + message + b"\n" + USAGE)


@pytest.mark.parametrize("name, reason", [
    (b"nowhere", b"No such file or directory"),
    (b"", b"No such file or directory"),
    (b"dangling", b"No such file or directory"),
    (b"file", b"Not a directory"),
    (b"closed", b"Permission denied"),
    (b"x" * 300, b"File name too long"),
])
def test_gen_06_a_dir_that_cannot_be_opened_is_told(program, name, reason, tmp_path):
    (tmp_path / "file").write_text("no directory")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "closed").mkdir(mode=0)
    assert program.run(name, cwd=tmp_path, before=WITHOUT_RIGHTS) == (2, b"", b"treesum: %s: %s\n" % (name, reason))


def test_gen_06_help_goes_to_stdout(program):
    assert program.run("--help") == (0, USAGE, b"")
    assert program.run("anything", "--workers", "3", "--help", "--nonsense") == (0, USAGE, b"")


@pytest.mark.parametrize("arguments", [["--workers", "1"], ["--workers=3"], ["--jobs", "1"], ["--jobs=65536", "--workers=64"],
                                       ["--workers", "007", "--jobs", "0010"], ["--jobs", "1", "--jobs", "9", "--workers", "9"]])
def test_gen_06_good_numbers_are_taken(program, arguments, plain, choices):
    arguments = arguments[:]
    arguments.insert(choices.choice([0, len(arguments)]), plain.root)
    assert program.run(*arguments) == (0, plain.out, plain.err)


# ---- When stdout fails -----------------------------------------------------------------------------------------


def test_gen_02_a_full_disk_is_an_error(program):
    with open("/dev/full", "wb") as full:
        status, _, err = program.run(os.path.join(ROOT, "cpp"), stdout=full)
    assert (status, err) == (2, b"treesum: standard output: No space left on device\n")


def test_gen_02_a_reader_that_goes_away_is_an_error(program):
    process = program.start("/usr/include")
    assert process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), err) == (2, b"treesum: standard output: Broken pipe\n")


def test_gen_02_stdout_that_is_closed_is_not_taken_for_a_file(program_of, tmp_path):
    """The next file opened would get its number, and be written to. Other runtimes put a descriptor there themselves."""
    (tmp_path / "file").write_text("content")
    status, _, err = program_of("c").run(tmp_path, before=["sh", "-c", 'exec "$@" >&-', "sh"])
    assert (status, err) == (2, b"treesum: standard output: Bad file descriptor\n")
    assert (tmp_path / "file").read_text() == "content"


def test_gen_02_stderr_that_is_closed_stops_nothing(program_of, tricky):
    status, out, _ = program_of("c").run(tricky.root, before=[*WITHOUT_RIGHTS, "sh", "-c", 'exec "$@" 2>&- <&-', "sh"])
    same(out, tricky.out)
    assert status == 1
