"""Checks that clang-format would change no source.

Usage: run_clang_format.py SOURCE_DIR
Exits with 77 (skipped) where clang-format is not installed.
"""
import os
import shutil
import subprocess
import sys

from check_includes import sources


def main():
    root = sys.argv[1]
    if shutil.which("clang-format") is None:
        print("skipped: clang-format is not installed (Debian package clang-format)")
        return 77
    # A .def file is a list of macro calls, laid out by hand as a table.
    files = [os.path.join(root, path) for path in sources(root) if not path.endswith(".def")]
    return subprocess.run(["clang-format", "--dry-run", "-Werror", *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
