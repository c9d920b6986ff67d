"""Checks that files are cut by subject: that few functions are public for one file beside theirs alone.

Usage: check_neighbours.py SOURCE_DIR
A function that one other file of its folder calls, and no file elsewhere, would be static if both were one file. rules.py
has the number allowed in each folder, and the folders of which no two have files of one name. Prints one line per
finding; exits with 1 on any.
"""
import collections
import os
import re
import sys

from check_includes import sources
from check_symbols import COMMENT, names_in
from rules import DISTINCT_NAMES, NEIGHBOURS

STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
PROTOTYPE = re.compile(r"^\w[^;{}()=]*?\b\w+\([^;{}]*\);", re.M)


def words_in(path, text):
    """The names that a file uses. A header that declares a function does not use it."""
    text = STRING.sub('""', COMMENT.sub("", text))
    return set(re.findall(r"\w+", PROTOTYPE.sub("", text) if path.endswith(".h") else text))


def for_one_neighbour(root):
    """Returns for each folder of NEIGHBOURS [(function, its file, the only file that uses it)]."""
    defined, users = {}, collections.defaultdict(set)
    for path in sources(root):
        if path.startswith("tests/"):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".c") and os.path.dirname(path) + "/" in NEIGHBOURS:
            defined.update((name, path) for name in names_in(text))
        for word in words_in(path, text):
            users[word].add(path)
    found = collections.defaultdict(list)
    for name, path in sorted(defined.items()):
        others = users[name] - {path}
        if len(others) == 1 and os.path.dirname(min(others)) == os.path.dirname(path):
            found[os.path.dirname(path) + "/"].append((name, path, min(others)))
    return found


def findings(root):
    for folder, functions in for_one_neighbour(root).items():
        if len(functions) > NEIGHBOURS[folder]:
            yield (f"{folder} has {len(functions)} public functions that one file beside theirs alone calls, and "
                   f"{NEIGHBOURS[folder]} are allowed: make them static, or put them into that file")
            yield from (f"  {path}: {name} is for {user}" for name, path, user in functions)
    places = collections.defaultdict(set)
    for folder in DISTINCT_NAMES:
        for path in sources(root):
            if os.path.dirname(path) + "/" == folder:
                places[os.path.splitext(os.path.basename(path))[0]].add(folder)
    for name, folders in sorted(places.items()):
        if len(folders) > 1:
            yield f"{' and '.join(sorted(folders))} both have a file {name}: say in one name what differs"


def main():
    found = list(findings(sys.argv[1]))
    print("\n".join(found) if found else "files are cut by subject")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
