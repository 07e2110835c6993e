"""Changes a tree at random: storm.py ROOT SEED NUMBER CHANGES.

Several may do so at once, in each other's way: what fails because another was quicker does not count as a change.
Ends once so many changes were made, and prints how many.
"""

import os
import random
import sys

NAMES = [b"a", b"b", b"c", b"d", b"e", b"f", b"\xff\xfe", "ü".encode(), b"new\nline", b" blank", b"back\\slash", b"-dash"]
MODES = [0o600, 0o644, 0o755, 0o440, 0o400, 0o1777, 0o666]
FOLDER_MODES = [0o700, 0o755, 0o1777, 0o750]
MAXIMUM_DEPTH = 6


class Storm:
    def __init__(self, root, seed, number):
        self.root = root
        self.choices = random.Random(f"{seed} {number}")
        self.number = number
        self.changes = 0
        self.folders = [root]
        self.last = root
        self.kinds = [(self.create, 30), (self.append, 20), (self.overwrite, 10), (self.rename, 12), (self.remove, 10),
                      (self.chmod, 8), (self.mkdir, 8), (self.rmdir, 4), (self.link, 3), (self.move_folder, 3),
                      (self.remove_all, 1)]

    def run(self, changes):
        kinds, weights = zip(*self.kinds)
        while self.changes < changes:
            for kind in self.choices.choices(kinds, weights, k=1000):
                try:
                    kind()
                except OSError:  # another was quicker, or there is no such thing
                    if not os.path.isdir(self.last):
                        self.folders.remove(self.last)
                    continue
                self.changes += 1

    # Most changes are made where something was made before, so that they meet.

    def folder(self):
        if len(self.folders) > 60:
            self.folders = [self.root] + self.choices.sample(self.folders, 30)
        self.last = self.choices.choice(self.folders)
        return self.last

    def path(self):
        return self.folder() + b"/" + self.choices.choice(NAMES)

    def write(self, flags, content):
        descriptor = os.open(self.path(), os.O_WRONLY | os.O_NOFOLLOW | flags, 0o644)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)

    def create(self):
        self.write(os.O_CREAT | os.O_TRUNC, b"%d %d\n" % (self.number, self.changes))

    def append(self):
        self.write(os.O_APPEND, b"%d more %d\n" % (self.number, self.changes))

    def overwrite(self):
        """The same size, perhaps within one tick of the file system's clock."""
        self.write(0, b"%d" % self.number)

    def rename(self):
        os.rename(self.path(), self.path())

    def remove(self):
        os.unlink(self.path())

    def chmod(self):
        """Never through a link: not everything that one could lead to is ours."""
        descriptor = os.open(self.path(), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fchmod(descriptor, self.choices.choice(MODES))
        finally:
            os.close(descriptor)

    def mkdir(self):
        path = self.path()
        if path.count(b"/") - self.root.count(b"/") <= MAXIMUM_DEPTH:
            os.mkdir(path, self.choices.choice(FOLDER_MODES))
            self.folders.append(path)

    def rmdir(self):
        folder = self.folder()
        if folder != self.root:
            os.rmdir(folder)

    def link(self):
        os.symlink(self.choices.choice([b"a", b"../b", b"nowhere", b"/nowhere/at/all", self.path()]), self.path())

    def move_folder(self):
        """With all that is in it, as deep as that may be."""
        to = self.path()
        os.rename(self.folder(), to)
        self.folders.append(to)

    def remove_all(self):
        """A folder and what is in it, from the leaves on."""
        folder = self.folder()
        if folder == self.root:
            return
        for here, folders, files in os.walk(folder, topdown=False):
            for name in files:
                os.unlink(os.path.join(here, name))
            for name in folders:
                path = os.path.join(here, name)
                (os.unlink if os.path.islink(path) else os.rmdir)(path)
        os.rmdir(folder)


def main():
    root, seed, number, changes = os.fsencode(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.umask(0)
    storm = Storm(root, seed, number)
    storm.run(changes)
    print(storm.changes)


if __name__ == "__main__":
    main()
