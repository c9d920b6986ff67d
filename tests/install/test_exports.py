"""What a program that was linked with libtern-client.so depends on: the names that the library exports,
which are those of cmake/libtern-client.map and of the headers (lint_text compares these two); its own name;
the libraries that it brings along.

Usage: test_exports.py BUILD_DIR COMPILER
"""
import re
import sys

from prefix import TREE, Prefix, check, main, need_programs, run


def exported(library):
    """Names with their versions."""
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    return {name for _, kind, name in map(str.split, lines) if kind != "A"}


def listed():
    text = (TREE / "cmake" / "libtern-client.map").read_text()
    for node, names in re.findall(r"^(TERN_CLIENT_\S+) \{\nglobal:\n((?: +tern_\w+;\n)+)", text, re.M):
        yield from (f"{name}@@{node}" for name in re.findall(r"tern_\w+", names))


def test():
    need_programs("nm", "readelf")
    with Prefix(*sys.argv[1:]) as prefix:
        library = prefix.find("libtern-client.so")
        found, expected = exported(library), set(listed())
        check("tern_client_init@@TERN_CLIENT_0.1" in expected, f"the version script lists {expected}")
        check(found == expected, f"exported beside the list: {sorted(found - expected)}; listed and not there: "
              f"{sorted(expected - found)}")
        dynamic = run("readelf", "-dW", library)
        check("soname: [libtern-client.so.0]" in dynamic, dynamic)
        needed = set(re.findall(r"NEEDED.*\[(\w+)", dynamic))
        check(needed <= {"libcurl", "libmbedcrypto", "libc", "libm", "ld"}, f"the library needs {needed}")


main(test)
