"""Checks what no compiler checks in the project's files.

Usage: check_text.py SOURCE_DIR
No notes to self, no machine's paths, no registry hosts, no trailing blanks or tabs in C, every
header guarded and opened by a comment, no headings or tables in comments that were torn across lines. Prints one line per finding; exits with 1 on any.
"""
import os
import re
import subprocess
import sys

# Written in pieces, so that this file does not find itself.
NOTES = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b")
MACHINE = re.compile(r"(?<![\w.])/(" + "|".join(["wo" + "rk", "ho" + "me"]) + r")/\w")
REGISTRY = re.compile(r"\b(" + "|".join([r"deb\.deb" + r"ian\.org", "py" + r"pi\.org",
                                        "registry" + r"\.npmjs"]) + r")\b")
TEXT = (".c", ".h", ".def", ".py", ".sh", ".md", ".txt", ".cmake", ".ini", ".proto", ".options",
        ".in", ".json", ".yml", ".service", ".example")


def tracked(root):
    """Files that git knows or would add; without git, every file outside build folders."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                         capture_output=True, text=True, check=False)
    if git.returncode == 0:
        return sorted(git.stdout.split("\n"))
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".", "build"))]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(found)


# A heading is `// --- Text`: a line of dashes beneath it is what an editor made of a longer one.
RULER = re.compile(r"^\s*//.*-{5,}$")
# `TERN_ERR_X  meaning` is a row of a table and begins a line; another may follow behind a semicolon.
TORN_ROW = re.compile(r"^\s*// .*[^;|,:\s] +TERN_(OK|AGAIN|ERR_\w+) {2,}\S")


def line_findings(path, line):
    if NOTES.search(line):
        yield "a note to self; open an issue instead"
    if MACHINE.search(line):
        yield "a path of one machine"
    if REGISTRY.search(line):
        yield "a registry's host"
    if path.endswith((".c", ".h", ".def")):
        if line != line.rstrip() or "\t" in line:
            yield "a tab or trailing blanks"
        if RULER.search(line):
            yield "a line of dashes; a heading is '// --- Text'"
        if TORN_ROW.search(line):
            yield "a table of results that runs on from the line before"


def header_findings(path, text):
    if not text.startswith("//"):
        yield "a header opens with what it is, who calls it, and its thread rule"
    if not re.search(r"^#ifndef TERN_\w+_H\n#define TERN_\w+_H$", text, re.M):
        yield "no include guard TERN_..._H"


def findings(root):
    for path in tracked(root):
        full = os.path.join(root, path)
        if not (path.endswith(TEXT) or os.path.basename(path) in ("CMakeLists.txt", "tern", "run")):
            continue
        if not os.path.isfile(full) or "/corpus/" in path:
            continue
        with open(full, encoding="utf-8") as file:
            text = file.read()
        for number, line in enumerate(text.splitlines(), 1):
            for why in line_findings(path, line):
                yield f"{path}:{number}: {why}"
        if path.endswith(".h") and not path.startswith("tests/"):
            for why in header_findings(path, text):
                yield f"{path}:1: {why}"


def main():
    found = list(findings(sys.argv[1]))
    print("\n".join(found) if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
