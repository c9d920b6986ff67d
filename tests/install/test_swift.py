"""The C interface of bindings/swift: what clang sees of its header, as Swift's importer does, and its rounds. Swift itself is
not in Debian 12.

Usage: test_swift.py BUILD_DIR COMPILER
"""
import os
import re
import subprocess
import sys

from prefix import TREE, Prefix, check, main, need_programs
from harness import Aggregator, Workspace, make_certificates
from refusing_front import RefusingFront

SWIFT = TREE / "bindings" / "swift" / "Sources" / "CTern"
HEADER = SWIFT / "include" / "tern_app.h"
CLANG = ["clang", "-x", "objective-c", "-Wall", "-Wextra", "-Werror", "-Werror=nullability", "-Werror=nullability-completeness"]


def clang(*arguments, source=None):
    done = subprocess.run([*CLANG, *map(str, arguments)], input=source, capture_output=True, text=True, check=False,
                          env=dict(os.environ, CCACHE_DISABLE="1"))  # ccache repeats what clang printed of another header
    check(done.returncode == 0, f"clang {arguments}: {done.stderr}")
    return done.stdout


def imports():
    """Every pointer has a nullability, the enumeration a fixed type; no macro stands for a value, and the module builds."""
    seen = clang("-fsyntax-only", "-Xclang", "-ast-dump", HEADER)
    functions = [line for line in seen.splitlines() if "FunctionDecl" in line and " tern_app_" in line]
    check(len(functions) == 11, f"functions: {functions}")
    for line in functions:
        kind = line.partition("'")[2].rstrip("'")
        check(kind.count("*") == len(re.findall(r"\* ?_N(?:onnull|ullable)", kind)), f"a pointer without nullability: {kind}")
    check(re.search(r"EnumDecl .* tern_app_outcome '(int32_t|int)'", seen), "the enumeration has no fixed type")
    macros = set(re.findall(r"#define (\w+)", HEADER.read_text()))
    check(macros == {"TERN_APP_H", "TERN_APP_NULLABLE", "TERN_APP_ENUM"}, f"macros: {macros}")
    clang("-fmodules", "-fno-implicit-module-maps", f"-fmodule-map-file={SWIFT}/include/module.modulemap", "-fsyntax-only", "-",
          source="@import CTern;\ntern_app *_Nullable app;\nenum tern_app_outcome last = TERN_APP_DONE;\n")
    swift = (TREE / "bindings/swift/Sources/Tern/TernClient.swift").read_text()
    declared = set(re.findall(r"\b(?:tern_app_\w+|TERN_APP_[A-Z]+)\b", HEADER.read_text()))
    package = (TREE / "bindings/swift/Package.swift").read_text()
    check('.systemLibrary(name: "CTernClient", pkgConfig: "tern-client")' in package and
          (TREE / "bindings/swift/Sources/CTernClient/module.modulemap").is_file(), "Package.swift names no folder of libtern-client")
    examples = (TREE / "bindings/swift/Examples/BackgroundRound.swift").read_text()
    check("enroll(code:" in examples and "retryAfter" in examples, "BackgroundRound.swift does not enrol or come back in time")
    used = set(re.findall(r"\b(?:tern_app_\w+|TERN_APP_[A-Z]+)\b", swift))
    check(used <= declared and len(used) > 12, f"TernClient.swift uses {used - declared}")


def test():
    need_programs("clang", "pkg-config", "openssl")
    imports()
    with Workspace() as workspace, Prefix(*sys.argv[1:]) as prefix:
        program = prefix.compile(TREE / "tests/install/app.c", "app", str(SWIFT / "tern_app.c"), f"-I{SWIFT}/include",
                                 *prefix.pkg_config("--cflags", "--libs", "tern-client"))
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:2-2"},
            "round": {"rounds": 3, "min_clients": 1, "cohort": 1, "come_back_min": "10ms", "come_back_max": "1h"}}).start()
        other = workspace.path / "other"
        other.mkdir()
        make_certificates(other)
        fronts = [RefusingFront(workspace.path, resets=resets).url for resets in (False, True)]
        said = prefix.call(program, aggregator.url, str(aggregator.ca), str(workspace.path / "app"), aggregator.join_code(),
                           *fronts, str(other / "ca.crt"))
        check(said.startswith("outcome=6 uploads=3 wire="), said)
        check(aggregator.json("status")["rounds_committed"] == 3, "the aggregator says otherwise")


main(test)
