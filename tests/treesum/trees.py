"""Trees to sum, and what is to be said of them, found out in another way than the programs do."""

import os
import socket
import stat
import subprocess
import zlib

NOT_UTF8 = b"name is not UTF-8"


def escaped(path):
    return path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")


def is_utf8(name):
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class Expected:
    """What treesum is to print for a tree, as ("out" or "err", line) in the order of the paths."""

    def __init__(self, root):
        self.root = root
        self.lines = []
        self.files = self.bytes = self.problems = 0

    def problem(self, path, reason):
        self.problems += 1
        self.lines.append(("err", b"treesum: %s: %s\n" % (escaped(path), reason)))

    def summed(self, path, crc, size):
        self.files += 1
        self.bytes += size
        mark = b"\\" if escaped(path) != path else b""
        self.lines.append(("out", b"%s%08x %d %s\n" % (mark, crc, size, escaped(path))))

    def end(self):
        self.lines.append(("err", b"treesum: %d files, %d bytes, %d problems\n" % (self.files, self.bytes, self.problems)))
        return self

    @property
    def out(self):
        return b"".join(line for stream, line in self.lines if stream == "out")

    @property
    def err(self):
        return b"".join(line for stream, line in self.lines if stream == "err")

    @property
    def merged(self):
        return b"".join(line for _, line in self.lines)

    @property
    def status(self):
        return 1 if self.problems else 0


def write(path, content=b""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def sparse(path, size):
    write(path)
    os.truncate(path, size)


def crc_of_zeros(size):
    crc, chunk = 0, bytes(1 << 20)
    while size:
        part = min(size, len(chunk))
        crc = zlib.crc32(chunk[:part], crc)
        size -= part
    return crc


def plain(root):
    expected = Expected(root)
    # In the order in which the lines are to come: '!', '-' and '.' sort before '/', '0' after it.
    for path in [b"a!", b"a-b/x", b"a.b", b"a/x", b"a/y/z", b"a0", b"b/x", "ä/ö".encode()]:
        content = path * 1000
        write(os.path.join(root, path), content)
        expected.summed(path, zlib.crc32(content), len(content))
    os.makedirs(os.path.join(root, b"nothing/in/here"))
    return expected.end()


def slow(root):
    for i in range(32):
        sparse(os.path.join(root, b"%02d" % i), 8 << 30)
    return root


def tricky(root):
    """One of everything that a file system can hold."""
    expected = Expected(root)
    entries = []  # (path, whether it is a directory, what makes it, what is expected)

    def at(path):
        return os.path.join(root, path)

    def add(path, make, *reasons, crc=None, size=0, directory=False):
        entries.append((path, directory, make, reasons, crc, size))

    def file(path, content, *reasons):
        add(path, lambda: write(at(path), content), *reasons, crc=zlib.crc32(content), size=len(content))

    def link(path, target, *reasons, **summed):
        add(path, lambda: os.symlink(target, at(path)), *reasons, **summed)

    def without_mode(path, content, *reasons):
        def make():
            write(at(path), content)
            os.chmod(at(path), 0)

        add(path, make, *reasons, b"Permission denied")

    def listen(path):
        with socket.socket(socket.AF_UNIX) as end:
            here = os.getcwd()
            os.chdir(root)  # the name of a socket may be 107 bytes long
            end.bind(path)
            os.chdir(here)

    os.makedirs(root)
    file(b"empty", b"")
    file(b"file", b"content\n")
    file(b"exactly-a-chunk", b"x" * 262144)
    file(b"chunk-and-a-byte", b"y" * 262145)
    file(b"directory/file", b"inner")
    file(b"directory-next-to-it", b"between")
    file(b"directory0", b"behind")
    add(b"big", lambda: sparse(at(b"big"), 200 << 20), crc=crc_of_zeros(200 << 20), size=200 << 20)

    without_mode(b"unreadable", b"secret")
    without_mode(b"unreadable\xff", b"secret", NOT_UTF8)
    add(b"closed", lambda: os.makedirs(at(b"closed")), b"Permission denied", directory=True)
    add(b"listed-only/file", lambda: write(at(b"listed-only/file"), b"secret"), b"Permission denied")
    add(b"listed-only/folder", lambda: os.makedirs(at(b"listed-only/folder")), b"Permission denied", directory=True)

    add(b"fifo", lambda: os.mkfifo(at(b"fifo")), b"not a regular file: FIFO")
    add(b"socket", lambda: listen(b"socket"), b"not a regular file: socket")
    add(b"fifo\xff", lambda: os.mkfifo(at(b"fifo\xff")), NOT_UTF8, b"not a regular file: FIFO")
    link(b"link-to-device", b"/dev/null", b"not a regular file: character device")
    link(b"link-to-fifo", b"fifo", b"not a regular file: FIFO")
    link(b"link-to-socket", b"socket", b"not a regular file: socket")
    if may_make_devices(at(b"probe")):
        for name, kind, number, word in [(b"device", stat.S_IFCHR, os.makedev(1, 3), b"character"),
                                         (b"disk", stat.S_IFBLK, os.makedev(7, 250), b"block")]:
            add(name, lambda path=at(name), mode=kind | 0o600, number=number: os.mknod(path, mode, number),
                b"not a regular file: %s device" % word)

    link(b"link-to-file", b"directory/file", crc=zlib.crc32(b"inner"), size=5)
    link(b"link-to-link", b"link-to-file", crc=zlib.crc32(b"inner"), size=5)
    link(b"link-to-directory", b"directory")
    link(b"link-to-directory\xff", b"directory")
    link(b"link-to-unreadable", b"unreadable", b"Permission denied")
    link(b"dangling", b"nowhere", b"No such file or directory")
    link(b"through-a-file", b"file/x", b"Not a directory")
    link(b"loop", b"loop", b"Too many levels of symbolic links")
    link(b"loop-a", b"loop-b", b"Too many levels of symbolic links")
    link(b"loop-b", b"loop-a", b"Too many levels of symbolic links")
    link(b"directory/up", b"..")
    # Its size is said to be 0, and bytes come out of it.
    link(b"larger-than-it-says", b"/proc/version", b"changed while it was read")

    for name in [b"\xff\xfe", b"half-\xc3", b"overlong-\xc0\xaf", b"surrogate-\xed\xa0\x80", b"beyond-\xf4\x90\x80\x80"]:
        file(name, b"raw " + name, NOT_UTF8)
    file("valid-ü-€-😀".encode(), b"text")
    file(b"folder-\xff/file", b"in a folder whose name is not text")
    file(b"folder-\xff/\xfe", b"both", NOT_UTF8)
    add(b"folder-\xff", lambda: None, NOT_UTF8, directory=True)
    add(b"closed-\xff", lambda: os.makedirs(at(b"closed-\xff")), NOT_UTF8, b"Permission denied", directory=True)
    for name in [b"new\nline", b"back\\slash", b"carriage\rreturn", b"\\n", b"all\\\n\r", b" blank ", b"tab\t", b"-dash",
                 b"\x01\x7f\x1b[31m"]:
        file(name, b"named " + name)
    file(b"fold\ner/\\", b"both escaped")
    add(b"unresolved\n", lambda: os.symlink(b"nowhere", at(b"unresolved\n")), b"No such file or directory")

    for _, _, make, *_ in entries:
        make()
    for name, mode in [(b"closed", 0), (b"closed-\xff", 0), (b"listed-only", 0o444)]:
        os.chmod(at(name), mode)
    for path, directory, _, reasons, crc, size in sorted(entries, key=lambda entry: entry[0] + (b"/" if entry[1] else b"")):
        for reason in reasons:
            expected.problem(path, reason)
        if crc is not None:
            expected.summed(path, crc, size)
    return expected.end()


def may_make_devices(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        return False
    os.unlink(path)
    return True


def many(root, folders, files):
    """So many folders with so many small files each."""
    expected = Expected(root)
    for folder in range(folders):
        name = b"folder-%04d" % folder
        os.makedirs(os.path.join(root, name))
        for number in range(files):
            path = b"%s/file-%05d" % (name, number)
            with open(os.path.join(root, path), "wb") as file:
                file.write(path)
            expected.summed(path, zlib.crc32(path), len(path))
    return expected.end()


LONGEST_PATH = 4095


def deep(root, levels, name):
    """A file at every level, and that many levels; what has a path too long for the system is reported."""
    expected = Expected(root)
    os.makedirs(root)
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    path = b""  # None below what can be walked
    for level in range(levels):
        content = b"level %d" % level
        descriptor = os.open(b"0", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=here)
        os.write(descriptor, content)
        os.close(descriptor)
        if path is not None and len(path + b"0") <= LONGEST_PATH:
            expected.summed(path + b"0", zlib.crc32(content), len(content))
        elif path is not None:
            expected.problem(path + b"0", b"File name too long")
        if level + 1 < levels:
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
            if path is not None and len(path + name) > LONGEST_PATH:
                expected.problem(path + name, b"File name too long")
                path = None
            elif path is not None:
                path += name + b"/"
    os.close(here)
    return expected.end()


def remove(root):
    """Also what nobody may enter, and what is deeper than a path can say."""
    subprocess.run(["chmod", "-R", "u+rwX", os.fsdecode(root)], check=True)
    subprocess.run(["rm", "-rf", os.fsdecode(root)], check=True)


def regular_files(root):
    """The paths of all files and of the links to files, bytewise sorted; links to directories are not followed."""
    found = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                found.append(os.path.relpath(path, root))
    return sorted(found)
