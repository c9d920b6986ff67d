#!/usr/bin/env python3
"""Writes the man page of a program's INI file from its own --settings.

Usage: settings_page.py OUTPUT DATE FILE COMMAND...

FILE is the file's usual place, e.g. /etc/tern/client.ini; the page is named after the program and it,
tern-client.ini. COMMAND is the program, behind its emulator if it is of another architecture.
"""

import os
import re
import subprocess
import sys

from man_page import escape

SECTION = re.compile(r"^\[(?P<name>\w+)\]$")
SETTING = re.compile(r"^(?:; )?(?P<key>\w+) =(?: .*)?$")


def output_of(command, option):
    return subprocess.run([*command, option], check=True, capture_output=True, text=True).stdout


def comment(lines):
    """Text of lines that all begin with #."""
    return [line.removeprefix("#").strip() for line in lines]


def described(lines):
    """What is said of a setting; what it takes is a paragraph of its own."""
    first = next((i for i, line in enumerate(lines) if line.startswith("Allowed:")), len(lines))
    out = [escape(line) for line in lines[:first]]
    return out + ([".sp", *(escape(line) for line in lines[first:])] if first < len(lines) else [])


def block(lines):
    """Lines between two empty ones: a section's heading, and a setting behind its comment."""
    out = []
    match = SECTION.match(lines[0])
    if match:
        out.append(f".SH [{match['name']}]")
        lines = lines[1:]
    said = comment(line for line in lines if line.startswith("#"))
    keys = [SETTING.match(line) for line in lines if not line.startswith("#")]
    if None in keys or len(keys) > 1:
        raise SystemExit(f"this is no comment with one setting behind it: {lines}")
    if keys:
        return out + [".TP", f".B {escape(keys[0]['key'])}", *described(said)]
    return out + ([".PP", *map(escape, said)] if said else [])


def page(date, file, command):
    program, version = output_of(command, "--version").split()
    first, *blocks = re.split(r"\n\n+", output_of(command, "--settings").strip("\n"))
    name = f"{program}.ini"
    out = [f'.TH {name.upper()} 5 "{date}" "Tern {version}" "Tern"',
           ".SH NAME", f"{escape(name)} \\- settings of {escape(program)}",
           ".SH SYNOPSIS", f".I {escape(file)}", ".br",
           f".B {escape(program)}", escape("--config FILE"), ".SH DESCRIPTION",
           *map(escape, comment(first.splitlines()))]
    for text in blocks:
        out += block(text.splitlines())
    return "\n".join([*out, ".SH SEE ALSO", f".BR {escape(program)} (1)"]) + "\n"


def main():
    output, date, file, *command = sys.argv[1:]
    with open(output, "w", encoding="utf-8") as made:
        made.write(page(date, os.path.normpath(file), command))


if __name__ == "__main__":
    main()
