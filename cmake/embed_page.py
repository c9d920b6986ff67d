#!/usr/bin/env python3
"""Puts the files of the dashboard into a C source: embed_page.py OUTPUT PAGE_FOLDER.

index.html becomes "/"; where it names "page/NAME", the name becomes "/page/HASH/NAME", with a hash of
all files, so that browsers may cache them for good.
"""
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def read_page(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in TYPES}


def in_c(data):
    lines = (", ".join(map(str, data[i:i + 24])) for i in range(0, len(data), 24))
    return ",\n".join(f"    {line}" for line in lines)


def main():
    output, page = map(pathlib.Path, sys.argv[1:3])
    files = read_page(page)
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
    folder = f"/page/{digest.hexdigest()[:16]}/"
    index = files.pop("index.html").replace(b'"page/', f'"{folder}'.encode())
    served = {"/": ("index.html", index)}
    served.update({folder + name: (name, data) for name, data in sorted(files.items())})

    text = ["// Made by cmake/embed_page.py.", '#include "admin/page.h"', ""]
    rows = []
    for i, (path, (name, data)) in enumerate(served.items()):
        text += [f"static const uint8_t file_{i}[] = {{ // {name}", in_c(data), "};"]
        rows.append(f'    {{"{path}", "{TYPES[pathlib.Path(name).suffix]}", file_{i}, sizeof file_{i}}},')
    text += ["", "const struct tern_page_file tern_page_files[] = {", *rows, "};",
             f"const size_t tern_page_file_count = {len(rows)};", ""]
    output.write_text("\n".join(text), encoding="utf-8")


main()
