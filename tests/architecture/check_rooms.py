"""Checks that the folders of ROOMS in rules.py keep one file for each subject.

Usage: check_rooms.py SOURCE_DIR
In such a folder (without its subfolders) no .c file has fewer than SMALL lines; a function with external linkage is called
from another file; and calls between the files go one way. In the folders of ONE_WAY only the last is checked.
check_neighbours.py counts functions with one caller. Prints one line per finding; exits with 1 on any.
"""
import os
import re
import sys

from check_includes import sources
from check_symbols import COMMENT, names_in
from rules import ONE_WAY, ROOMS

SMALL = 80


def circle(arrows, path, behind=(), *, free):
    """The files of the first circle that a walk from path meets, or None. free: a set of files without one, which grows."""
    if path in behind:
        return behind[behind.index(path):] + (path,)
    if path in free:
        return None
    after = behind + (path,)
    found = next(filter(None, (circle(arrows, other, after, free=free) for other in arrows[path])), None)
    if not found:
        free.add(path)
    return found


def findings_in(folder, words, owner, lines):
    rooms = sorted(path for path in lines if os.path.dirname(path) + "/" == folder)
    for path in rooms if folder in ROOMS else ():
        if lines[path] < SMALL:
            yield f"{path} has fewer than {SMALL} lines: make it part of its caller"
    for name, path in sorted(owner.items()) if folder in ROOMS else ():
        if path in rooms and not any({name, name + "("} & found for other, found in words.items() if other != path):
            yield f"{path}: {name}() has no caller in another file: make it static"
    calls = {path: {word[:-1] for word in words[path] if word.endswith("(")} for path in rooms}
    arrows = {path: sorted({owner[name] for name in calls[path] & owner.keys()} & set(rooms) - {path})
              for path in rooms}
    free = set()
    found = next(filter(None, (circle(arrows, path, free=free) for path in rooms)), None)
    if found:
        yield f"calls go round: {' -> '.join(found)}"


def findings(root):
    words, owner, lines = {}, {}, {}
    for path in sources(root):
        if not path.endswith(".c"):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        words[path] = set(re.findall(r"\w+\b\(?", COMMENT.sub("", text)))
        if os.path.dirname(path) + "/" in ROOMS + ONE_WAY:
            lines[path] = text.count("\n")
            owner.update((name, path) for name in names_in(text))
    for folder in ROOMS + ONE_WAY:
        yield from findings_in(folder, words, owner, lines)


def main():
    found = list(findings(sys.argv[1]))
    print("\n".join(found) if found else "every subject has one file")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
