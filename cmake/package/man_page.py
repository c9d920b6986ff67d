#!/usr/bin/env python3
"""Writes a program's man page from its own --help.

Usage: man_page.py OUTPUT DATE COMMAND...

COMMAND is the program, behind its emulator if it is of another architecture. Its help and that of
each of its verbs say everything, so the page cannot tell another story than the program.
"""

import re
import subprocess
import sys

ITEM = re.compile(r"^  (?P<name>\S.*?)  +(?P<text>\S.*)$")
HEADING = re.compile(r"^(?P<name>Verbs|Options|Common options):$")


def help_of(command, *arguments):
    return subprocess.run([*command, *arguments, "--help"], check=True, capture_output=True,
                          text=True).stdout


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def blocks_of(text):
    return [block.splitlines() for block in re.split(r"\n\n+", text.strip("\n"))]


def items(lines):
    """A list of names with what they mean, each as a tagged paragraph."""
    out = []
    for line in lines:
        match = ITEM.match(line)
        if match:
            out += [".TP", f".B {escape(match['name'])}", escape(match["text"])]
        else:
            out.append(escape(line.strip()))
    return out


def literal(lines):
    return [".PP", ".nf", ".RS 4", *(escape(line.strip()) for line in lines), ".RE", ".fi"]


def prose(lines):
    """A paragraph; its indented lines are commands, and stay as they are."""
    out = []
    while lines:
        indented = lines[0].startswith("  ")
        count = next((i for i, line in enumerate(lines) if line.startswith("  ") != indented),
                     len(lines))
        part, lines = lines[:count], lines[count:]
        out += literal(part) if indented else [".PP", *(escape(line) for line in part)]
    return out


def section(lines, heading):
    """One block of a help text."""
    match = HEADING.match(lines[0])
    if not match:
        return prose(lines)
    return [f".{heading} {match['name'].upper() if heading == 'SH' else match['name']}",
            *items(lines[1:])]


def verbs_of(blocks):
    for lines in blocks:
        if lines[0] == "Verbs:":
            return [ITEM.match(line)["name"] for line in lines[1:]]
    return []


def verb_section(command, verb):
    usage, tagline, *rest = blocks_of(help_of(command, verb))
    out = [f".SS {escape(verb)}", f".B {escape(usage[0].removeprefix('Usage: '))}",
           ".PP", escape(tagline[0])]
    for lines in rest:
        if lines[0] == "Common options:":
            break
        out += [".PP", ".B Options:", *items(lines[1:])] if lines[0] == "Options:" else prose(lines)
    return out


def page(date, command):
    blocks = blocks_of(help_of(command))
    usage, tagline, *rest = blocks
    name, version = subprocess.run([*command, "--version"], check=True, capture_output=True,
                                   text=True).stdout.split()
    purpose = tagline[0].rstrip(".")
    out = [f'.TH {name.upper()} 1 "{date}" "Tern {version}" "Tern"',
           ".SH NAME", f"{escape(name)} \\- {escape(purpose[0].lower() + purpose[1:])}",
           ".SH SYNOPSIS", f".B {escape(usage[0].removeprefix('Usage: '))}", ".SH DESCRIPTION"]
    later = []
    for lines in rest:
        (later if HEADING.match(lines[0]) else out).extend(section(lines, "SH"))
    out += later + [".SH WHAT EACH VERB DOES"]
    for verb in verbs_of(blocks):
        out += verb_section(command, verb)
    return "\n".join(out) + "\n"


def main():
    output, date, *command = sys.argv[1:]
    with open(output, "w", encoding="utf-8") as file:
        file.write(page(date, command))


if __name__ == "__main__":
    main()
