"""Checks what no compiler checks in the project's files.

Usage: check_text.py SOURCE_DIR
No notes to self, no machine's paths, no registry hosts, no trailing blanks or tabs in C, every
header guarded and opened by a comment, no word of C++ as a name in headers that C++ programs include, no
headings or tables in comments and no declarations that were torn across lines; and the shared library's version script has each
function of the headers that it is for. Prints one line per finding; exits with 1 on any.
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

# clang-format does this where a comment behind the declaration is too long; then the comment belongs above it.
TORN_DECLARATION = re.compile(r"^ +(?:const )?(?:(?:struct|enum) )?\w+(?: \*)?\n"
                              r" +(?!return|break|continue)\**\w+(?:\[\w*\])?; +//", re.M)


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


# Words of C++ that are names in C.
CXX = re.compile(r"\b(catch|class|delete|explicit|export|friend|mutable|namespace|new|operator|private|protected|"
                 r"public|template|this|throw|try|typename|using|virtual)\b")


def header_findings(path, text):
    if 'extern "C"' in text:
        code = re.sub(r'//[^\n]*|"[^"\n]*"', "", text)
        yield from (f"{word} is a word of C++" for word in CXX.findall(code))
    if not text.startswith("//"):
        yield "a header opens with what it is, who calls it, and its thread rule"
    if not re.search(r"^#ifndef TERN_\w+_H\n#define TERN_\w+_H$", text, re.M):
        yield "no include guard TERN_..._H"


# Functions of these are the shared library's; what they include besides, programs need for its types.
EXPORTED = ["client/client.h", "client/ports.h", "client/trainer/trainer.h", "client/data/dataset.h",
            "client/posix/transport.h", "client/posix/file_store.h", "client/posix/partial_file.h",
            "client/posix/system.h", "shared/result.h", "shared/tensor/model.h", "shared/tensor/manifest.h",
            "shared/error_feedback/error_storage.h", "shared/meter/meter.h"]
MAP = "cmake/libtern-client.map"


def declared(text):
    """Names of the functions that a header declares."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M).replace('extern "C" {', "")
    count = 1
    while count:
        text, count = re.subn(r"\{[^{}]*\}", ";", text)
    for statement in text.split(";"):
        match = re.search(r"\b(tern_\w+)\s*\(", statement)
        if match and not re.search(r"\b(static|typedef)\b", statement):
            yield match[1]


def export_findings(root):
    if not os.path.isfile(os.path.join(root, MAP)):
        return
    with open(os.path.join(root, MAP), encoding="utf-8") as file:
        listed = set(re.findall(r"^ +(tern_\w+);", file.read(), re.M))
    names = {}
    for path in EXPORTED:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            names.update((name, path) for name in declared(file.read()))
    for name in sorted(set(names) - listed):
        yield f"{names[name]}: {name} is not in {MAP}, so programs that embed the client cannot call it"
    for name in sorted(listed - set(names)):
        yield f"{MAP}: {name} is declared by no header of those that programs include"


def findings(root):
    yield from export_findings(root)
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
        if path.endswith((".c", ".h")):
            for torn in TORN_DECLARATION.finditer(text):
                number = 1 + text.count("\n", 0, torn.start())
                yield f"{path}:{number}: a declaration in two lines; its comment goes above it"
        if path.endswith(".h") and not path.startswith("tests/"):
            for why in header_findings(path, text):
                yield f"{path}:1: {why}"


def main():
    found = list(findings(sys.argv[1]))
    print("\n".join(found) if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
