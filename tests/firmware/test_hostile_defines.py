"""Zephyr, ESP-IDF and vendors' HALs define MIN, BIT, ERROR and more for every source. What a board builds of Tern
compiles although each of them is a token that C refuses (hostile_defines.h).

Usage: test_hostile_defines.py BUILD_DIR COMPILER NANOPB. NANOPB is the folder of pb.h.
"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
TREE = HERE.parent.parent


def folders_of_a_board():
    """The folders whose sources firmware_port/sources.cmake compiles."""
    listed = re.findall(r"foreach\(folder ([^)]+)\)", (TREE / "firmware_port/sources.cmake").read_text())
    return [f"firmware_port/{name}" for name in listed[0].split()] + listed[1].split()


def sources():
    found = [TREE / "client/data/dataset.c", *sorted((TREE / "firmware_port/zephyr").glob("*.c")),
             *sorted((TREE / "firmware_port/esp_idf/tern").glob("*.c"))]
    for folder in folders_of_a_board():
        found += sorted((TREE / folder).glob("*.c"))
    return found


def compiles(compiler, build, nanopb, source):
    """Returns the compiler's messages; "" if it accepts the source."""
    includes = [TREE / "shared", TREE / "client", TREE / "firmware_port"]
    systems = [build / "shared/generated", nanopb, HERE / "zephyr", HERE / "esp_idf"]
    command = [compiler, "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror",
               "-include", HERE / "hostile_defines.h",
               *(f"-I{folder}" for folder in includes), *(f"-isystem{folder}" for folder in systems), source]
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False,
                          timeout=120)
    return done.stderr if done.returncode != 0 else ""


def main():
    compiler, build, nanopb = sys.argv[2], pathlib.Path(sys.argv[1]), sys.argv[3]
    found = sources()
    if len(found) < 80:
        sys.exit(f"FAILED: only {len(found)} files, which cannot be all that a board compiles")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(compiles, compiler, build, nanopb, source) for source in found]
        refused = [job.result() for job in jobs if job.result()]
    if refused:
        sys.exit(f"FAILED: {len(refused)} files use names that systems for boards define; give these names the "
                 "prefix TERN_:\n" + "\n".join(text[:800] for text in refused[:10]))


if __name__ == "__main__":
    main()
