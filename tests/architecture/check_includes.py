"""Checks every #include and the calls of pure components against rules.py.

Usage: check_includes.py SOURCE_DIR
Prints one line per violation and exits with 1 when there is any.
"""
import fnmatch
import os
import re
import sys

from rules import INCLUDE_ROOTS, KEPT, NO_CALLS, RULES

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GENERATED = {"wire/tern.pb.h": "shared/wire/tern.pb.h", "wire/helper.pb.h": "shared/wire/helper.pb.h",
             "version.h": "shared/version.h"}


def sources(root):
    """Every C source of the components, relative to root."""
    for top in sorted({prefix.split("/")[0] for prefix in RULES}):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if name.endswith((".c", ".h", ".def")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def component(path):
    return max((prefix for prefix in RULES if path.startswith(prefix)), key=len, default=None)


def resolve(root, path, name):
    """The file that #include "name" in path means, or None when it is not of this tree."""
    if name in GENERATED:
        return GENERATED[name]
    own = path.split("/", 1)[0] + "/"  # both client/ and aggregator/ have a cli/settings.h
    for base in [os.path.dirname(path) + "/", own] + INCLUDE_ROOTS:
        candidate = os.path.normpath(base + name)
        if os.path.exists(os.path.join(root, candidate)):
            return candidate
    return None


def judge(root, path, quote, name):
    """Why `path` may not include `name`, or None."""
    knows, system = RULES[component(path)]
    target = resolve(root, path, name) if quote == '"' else None
    if target is not None:
        if component(target) == component(path) or any(target.startswith(k) for k in knows):
            return None
        return f"{component(path)} may not know {target}"
    for pattern, keepers in KEPT.items():
        if fnmatch.fnmatch(name, pattern) and not any(path.startswith(k) for k in keepers):
            if not path.startswith("tests/"):
                return f"<{name}> is known to {' and '.join(keepers)} alone"
    if not any(fnmatch.fnmatch(name, pattern) for pattern in system):
        return f"{component(path)} may not include <{name}>"
    return None


def forbidden_call(path, line):
    """Why this line calls what its component may not call, or None."""
    names = NO_CALLS.get(component(path), [])
    match = re.search(rf"(?<![\w.>])({'|'.join(names)})\(", line.split("//")[0]) if names else None
    return f"{component(path)} may not call {match.group(1)}()" if match else None


def violations(root):
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                match = INCLUDE.match(line)
                why = judge(root, path, *match.groups()) if match else forbidden_call(path, line)
                if why:
                    yield f"{path}:{number}: {why}"


def main():
    found = list(violations(sys.argv[1]))
    print("\n".join(found) if found else "every include and call is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
