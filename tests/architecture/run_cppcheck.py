"""Runs cppcheck over the product's translation units of the build, and with TERN_LONG_TESTS (./tern lint,
./tern test --long) over those of the tests, which take as long again.

Usage: run_cppcheck.py SOURCE_DIR BUILD_DIR
Exits with cppcheck's findings as 1; with 77 (skipped) where cppcheck is not installed.
"""
import json
import os
import re
import shutil
import subprocess
import sys

# Sanitizers, code generation and warnings do not matter to cppcheck; the rest it must see.
DROPPED = re.compile(r"\s-(O\S|g\d?|f\S+|W\S+|M[DTF]\s?\S*)(?=\s)")


def own_units(source, build, with_tests):
    """Compile commands of sources inside SOURCE_DIR but not BUILD_DIR, each source once."""
    tests = os.path.join(os.path.realpath(source), "tests") + os.sep
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        units = json.load(file)
    seen = {}
    for unit in units:
        path = os.path.realpath(unit["file"])
        inside = path.startswith(os.path.realpath(source) + os.sep)
        generated = path.startswith(os.path.realpath(build) + os.sep)
        if inside and not generated and (with_tests or not path.startswith(tests)) and os.path.exists(path):
            unit["command"] = DROPPED.sub("", unit["command"])
            seen.setdefault(path, unit)
    return list(seen.values())


def main():
    source, build = sys.argv[1:3]
    if shutil.which("cppcheck") is None:
        print("skipped: cppcheck is not installed (Debian package cppcheck)")
        return 77
    work = os.path.join(build, "cppcheck")
    os.makedirs(work, exist_ok=True)
    project = os.path.join(work, "compile_commands.json")
    with open(project, "w", encoding="utf-8") as file:
        json.dump(own_units(source, build, "TERN_LONG_TESTS" in os.environ), file)
    command = ["cppcheck", f"--project={project}", f"--cppcheck-build-dir={work}", "-j2", "--quiet",
               "--enable=warning,performance,portability", "--inline-suppr", "--error-exitcode=1",
               f"--suppressions-list={os.path.dirname(os.path.abspath(__file__))}/cppcheck.txt"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
