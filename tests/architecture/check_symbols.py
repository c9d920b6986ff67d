"""Checks that no name with external linkage is defined twice in the product with another meaning.

Usage: check_symbols.py SOURCE_DIR
Reads the sources, not objects, so that parts that this machine does not build (firmware, other TLS libraries)
count as well. clang-format puts the brace of a function, and of nothing else, on a line of its own. Prints one
line per finding; exits with 1 on any.
"""
import collections
import os
import re
import sys

from check_includes import sources
from rules import ALTERNATIVES

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
DEFINITION = re.compile(r"^([^\n{};][^{};=]*?)\n\{\n", re.M)
# `static`, or a macro of loops that are compiled several times, each with its own storage class.
INTERNAL = re.compile(r"\bstatic\b|^(?!TERN_)[A-Z_]{3,}\b|^TERN_(?:INLINE|KERNEL)\b")
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)")


def names_in(text):
    """The functions with external linkage that a source defines."""
    for match in DEFINITION.finditer(DIRECTIVE.sub("", COMMENT.sub("", text))):
        head = ATTRIBUTE.sub("", match.group(1)).strip()
        name = re.search(r"(\w+)\(", head)
        if name and name.group(1) != "main" and not INTERNAL.search(head):
            yield name.group(1)


def kind_of(path):
    """Sources of one kind stand for each other: one image or build has one of them."""
    return next((kind for kind in ALTERNATIVES if any(path.startswith(start) for start in kind)), path)


def findings(root):
    places = collections.defaultdict(set)
    for path in sources(root):
        if path.endswith(".c") and not path.startswith("tests/"):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                for name in names_in(file.read()):
                    places[name].add(path)
    for name, paths in sorted(places.items()):
        if len({kind_of(path) for path in paths}) > 1:
            yield f"{name} is defined by {' and by '.join(sorted(paths))}"


def main():
    found = list(findings(sys.argv[1]))
    print("\n".join(found) if found else "every name has one meaning")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
