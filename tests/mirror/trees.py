"""What a tree holds, and whether two hold the same."""

import os
import stat
import subprocess

WORK = b".mirror-work"
MODES = 0o1777


def described(path):
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return ("link", os.readlink(path))
    if stat.S_ISDIR(found.st_mode):
        return ("folder", found.st_mode & MODES)
    if not stat.S_ISREG(found.st_mode):
        return ("special", stat.S_IFMT(found.st_mode))
    with open(path, "rb") as file:
        return ("file", found.st_mode & MODES, found.st_mtime_ns, file.read())


def holds(root):
    """Everything in a tree: path to what is there. Of something that goes meanwhile nothing is said."""
    found = {}

    def look(path, name):
        try:
            found[name] = described(path)
            if found[name][0] == "folder":
                for below in os.listdir(path):
                    if name or below != WORK:
                        look(path + b"/" + below, name + b"/" + below)
        except FileNotFoundError:
            found.pop(name, None)

    look(root, b"")
    return found


def differences(source, target):
    """At most ten, as (path, what SRC has, what DST has)."""
    left, right = holds(source), holds(target)
    names = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    return [(name, left.get(name), right.get(name)) for name in names[:10]]


def assert_equal(source, target):
    """Once the mirror has ended: by our own look, and by that of diff, which knows nothing of it."""
    assert differences(source, target) == []
    assert not os.path.lexists(os.path.join(target, WORK))
    done = subprocess.run(["diff", "-r", "--no-dereference", os.fsdecode(source), os.fsdecode(target)],
                          capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


def write(path, content=b""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def remove(root):
    subprocess.run(["chmod", "-R", "u+rwX", os.fsdecode(root)], check=True)
    subprocess.run(["rm", "-rf", os.fsdecode(root)], check=True)
