#!/usr/bin/env python3
"""What an image of the firmware takes of flash and RAM, part by part, from the linker's map.

Tern's own code is compiled as one: the map says what is Tern's, and the debug information which of
its parts a function is of. What was inlined counts where it went.

    firmware_sizes.py check IMAGE_DIR          is within its budget, and has no heap and no stdio
    firmware_sizes.py table BASELINE DIR...    prints a table, with the change since the baseline
    firmware_sizes.py save BASELINE DIR...     makes these sizes the baseline
    firmware_sizes.py files IMAGE_DIR          where the bytes of Tern's own code are, by source file

Exit code 1: over a budget, or something is linked that may not be.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

KIB = 1024
ROOT = pathlib.Path(__file__).resolve().parents[2]
# The whole image is held to these by the linker (memory.ld), too.
BUDGET = {"flash": 128 * KIB, "ram": 64 * KIB}
# What Tern's own code is to take one day, and what it may not grow beyond until then.
TERN_GOAL = 24 * KIB
TERN_CEILING = 38752
BEHIND = 256  # bytes of Tern's flash beyond which the baseline says little of what a change costs
# What kinds of images may take more: an error buffer of 8 bit, which saves RAM, and secure rounds.
MORE = {"-int8": 688, "-secure": 9824}

# Tern's own, by the folder of the sources; "data": tables, texts and variables of them all.
TERN = ("shared", "client", "firmware_port", "data of these")
DATA = TERN[-1]
COMPILED_AS_ONE = re.compile(r"[.]ltrans\d+[.]ltrans[.]o$")

# Other parts in the order of the table, by the archive that a piece comes from.
PARTS = {
    "log": ["liblog.a"],
    "mbedTLS": ["libmbedtls.a"],
    "lwIP": ["liblwip.a"],
    "nanopb": ["libnanopb.a"],
    "libc, libgcc": ["libgcc.a", "libc.a", "libg.a", "libc_nano.a", "libg_nano.a", "libm.a",
                     "libm_nano.a", "libnosys.a"],
    "board": ["tern.elf.dir/"],
}
STACK, REST = "stack", "padding"
FLASH_SECTIONS = {".text", ".ARM.exidx", ".data"}
RAM_SECTIONS = {".data", ".bss", ".stack"}

# A heap, stdio, or an end of the program: the C library is there for memcpy() and the like.
FORBIDDEN = re.compile(r"_*(malloc|calloc|realloc|free|sbrk|exit|abort|v?f?s?n?printf|v?s?scanf|"
                       r"f?puts|fopen|fwrite|sinit|sfp|libc_init_array)(_r)?$")


def within_root(path):
    """Returns the path relative to ROOT. An object from ccache can name another clone, or a folder relative to it."""
    parts = path.strip(os.sep).split(os.sep)
    for first in range(len(parts)):
        if ROOT.joinpath(*parts[first:]).is_file():
            return os.path.join(*parts[first:])
    return path


def sources_of(elf):
    """The source file of each function, relative to ROOT, by the function's address."""
    lines = subprocess.run(["arm-none-eabi-nm", "--defined-only", "-l", elf], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    sources = {}
    for line in lines:
        found = re.match(r"([0-9a-f]+) [tT] \S+\t(.*):\d+$", line)
        if found:
            sources[int(found[1], 16)] = within_root(os.path.normpath(found[2]))
    return sources


def part_of(source, address, sources):
    if COMPILED_AS_ONE.search(source):
        folder = sources.get(address, "").split(os.sep)[0]
        return folder if folder in TERN else DATA
    for part, names in PARTS.items():
        if any(name in source for name in names):
            return part
    return REST


def sections_of(text):
    """Yields (output section, address, size, source) for every piece in the map, and for a section
    as a whole, whose source is None."""
    text = text[text.index("Linker script and memory map"):]
    text = re.sub(r"\n (\S+)\n +0x", r"\n \1 0x", text)  # long names have a line of their own
    text = re.sub(r"\n(\.\S+)\n +0x", r"\n\1 0x", text)
    section = None
    for line in text.splitlines():
        whole = re.match(r"(\.\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)", line)
        piece = re.match(r" (?:[.]\S+|COMMON)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*)",
                         line)
        if whole:
            section = whole[1]
            yield section, int(whole[2], 16), int(whole[3], 16), None
        elif piece and section:
            yield section, int(piece[1], 16), int(piece[2], 16), piece[3]


def measure(folder):
    sizes = {part: {"flash": 0, "ram": 0} for part in [*TERN, *PARTS, STACK, REST]}
    sources = sources_of(folder / "tern.elf")
    for section, address, size, source in sections_of((folder / "tern.map").read_text()):
        # What a section has more than its pieces is padding; the stack has no piece.
        parts = [(REST, 1)]
        if source is not None:
            parts = [(part_of(source, address, sources), 1), (REST, -1)]
        if section == ".stack":
            parts = [(STACK, 1)]
        for part, sign in parts:
            sizes[part]["flash"] += sign * size * (section in FLASH_SECTIONS)
            sizes[part]["ram"] += sign * size * (section in RAM_SECTIONS)
    sizes["whole image"] = {kind: sum(part[kind] for part in sizes.values()) for kind in BUDGET}
    sizes["of it Tern"] = {kind: sum(sizes[part][kind] for part in TERN) for kind in BUDGET}
    return sizes


def ceiling(name):
    return TERN_CEILING + sum(more for kind, more in MORE.items() if name.endswith(kind))


def over_budget(name, sizes):
    limits = [("whole image", kind, limit) for kind, limit in BUDGET.items()]
    limits.append(("of it Tern", "flash", ceiling(name)))
    return [f"{name}: {part} takes {sizes[part][kind]} bytes of {kind}, of {limit}"
            for part, kind, limit in limits if sizes[part][kind] > limit]


def forbidden(folder):
    symbols = subprocess.run(["arm-none-eabi-nm", "--defined-only", "-j", folder / "tern.elf"],
                             check=True, capture_output=True, text=True).stdout.split()
    return [f"{folder.name}: {symbol} is linked; there is no heap, no stdio and no end"
            for symbol in symbols if FORBIDDEN.match(symbol)]


def read_baseline(path):
    return json.loads(path.read_text()) if path.exists() else {}


def change(now, before):
    return "" if before is None else f"{now - before:+d}" if now != before else "="


def print_table(name, sizes, before):
    print(f"\n{name}")
    print(f"  {'part':<16}{'flash':>8}{'change':>8}{'RAM':>9}{'change':>8}")
    for part, size in sizes.items():
        old = before.get(part, {})
        print(f"  {part:<16}{size['flash']:>8}{change(size['flash'], old.get('flash')):>8}"
              f"{size['ram']:>9}{change(size['ram'], old.get('ram')):>8}")
    tern = sizes["of it Tern"]["flash"]
    reached = f"missed by {tern - TERN_GOAL}" if tern > TERN_GOAL else "reached"
    print(f"  {'budget':<16}{BUDGET['flash']:>8}{'':>8}{BUDGET['ram']:>9}")
    print(f"  {'of it Tern':<16}{ceiling(name):>8}  at most; the goal, {TERN_GOAL}, is {reached}")
    old = before.get("of it Tern", {}).get("flash", tern)
    if abs(tern - old) > BEHIND:
        print(f"  the baseline is {tern - old:+d} bytes behind: ./tern firmware --all --save brings it up to date")


def check(folder):
    return over_budget(folder.name, measure(folder)) + forbidden(folder)


def table(baseline, *folders):
    before = read_baseline(baseline)
    wrong = []
    for folder in folders:
        print_table(folder.name, measure(folder), before.get(folder.name, {}))
        wrong += check(folder)
    return wrong


def save(baseline, *folders):
    sizes = {**read_baseline(baseline), **{folder.name: measure(folder) for folder in folders}}
    baseline.write_text(json.dumps(dict(sorted(sizes.items())), indent=1) + "\n")
    return []


def files(folder):
    sources = sources_of(folder / "tern.elf")
    bytes_of = {}
    for section, address, size, source in sections_of((folder / "tern.map").read_text()):
        if source and section in FLASH_SECTIONS and COMPILED_AS_ONE.search(source):
            name = sources.get(address, DATA)
            bytes_of[name] = bytes_of.get(name, 0) + size
    for name, size in sorted(bytes_of.items(), key=lambda item: -item[1]):
        print(f"{size:>6}  {name}")
    return []


def main(verb, *paths):
    wrong = {"check": check, "table": table, "save": save, "files": files}[verb](*map(pathlib.Path, paths))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "table", "save", "files"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
