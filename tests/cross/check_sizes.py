"""Holds documents to the sizes of programs that are built.

    check_sizes.py SOURCE_DIR ARCH static|dynamic|release|java|java-static PROGRAM [STRIP]

Strips a copy of PROGRAM by STRIP (strip where left out), and compares its bytes with every figure that
the documents give of a program of that name, variant and architecture. A figure may differ by 3 percent. Prints
one line per figure; exits with 1 where one is stale, or where there is none at all.
"""
import os
import re
import subprocess
import sys
import tempfile

TOLERANCE = 0.03
ARCHS = ("amd64", "arm64", "armhf")  # as the columns of PORTING.md's table
UNITS = {"": 1, "KB": 1e3, "MB": 1e6}


def patterns(arch, variant, program):
    """(document, pattern) of each figure: a number, and behind it its unit where it has one."""
    columns = r"[^|\n]*\|" * ARCHS.index(arch)
    yield "docs/PORTING.md", rf"^\| {program} {variant}, stripped \|{columns} ([\d,]+)()"
    if variant == "static":
        yield "docs/PORTING.md", rf"^{arch}, stripped .*\n(?:  .*\n)*?  {program}, static +(\d+)()"
    if (variant, program) == ("static", "tern-client"):
        yield "README.md", rf"^The static client is .*?\b([\d.]+) (MB) on {arch}"
    made = {"java": "on Linux", "java-static": rf"by `./tern java {arch}`"}.get(variant)
    if made is not None:
        yield "docs/MOBILE.md", rf"^\| `{program}` {made}, {arch} \|[^|\n]*?\b([\d,]+)() bytes stripped"
    if (variant, arch) == ("release", "amd64"):
        yield "docs/BENCHMARKS.md", rf"^\| stripped {program} of the release build[^|]*\|[^|]*\| ([\d.]+) (KB)"


def figures(root, arch, variant, program):
    """(document, figure in bytes), each once."""
    found = {}
    for document, pattern in patterns(arch, variant, program):
        with open(os.path.join(root, document), encoding="utf-8") as file:
            text = file.read()
        for match in re.finditer(pattern, text, re.M):
            found[document, match.start(1)] = float(match[1].replace(",", "")) * UNITS[match[2]]
    return [(document, figure) for (document, _), figure in found.items()]


def stripped_bytes(program, strip):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([strip, "-o", file.name, program], check=True)
        return os.path.getsize(file.name)


def main():
    root, arch, variant, path, *strip = sys.argv[1:]
    program = os.path.basename(path)
    real = stripped_bytes(path, *strip or ["strip"])
    found = figures(root, arch, variant, program)
    if not found:
        print(f"no document gives the size of {program}, {variant}, {arch}: are the patterns still right?")
        return 1
    stale = [entry for entry in found if abs(entry[1] - real) > TOLERANCE * real]
    for document, figure in found:
        print(f"{document}: {program}, {variant}, {arch} has {real} bytes, {figure:.0f} by the document"
              f"{': STALE' if (document, figure) in stale else ''}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
