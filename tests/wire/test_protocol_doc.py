"""docs/PROTOCOL.md says what the code does.

Usage: test_protocol_doc.py WIRE_TOOL SOURCE_DIR

The bytes of each example in the document are what the encoder writes, every field of tern.proto and
helper.proto is described, and the limits it names are those of tern.options, helper.options, wire.h and result.h.
"""
import re
import subprocess
import sys
import unittest

TOOL, SOURCE = sys.argv[1], sys.argv[2]


def read(path):
    with open(f"{SOURCE}/{path}", encoding="utf-8") as file:
        return file.read()


DOC = read("docs/PROTOCOL.md")
PROTO = read("shared/wire/tern.proto") + read("shared/wire/helper.proto")


def tool(*arguments):
    return subprocess.run([TOOL, *arguments], check=True, stdout=subprocess.PIPE).stdout


def documented_bytes():
    """The bytes of each ```hex NAME block; '#' starts a comment, and "20 .. 3f" is each byte from 20 to 3f."""
    blocks = {}
    for name, text in re.findall(r"^```hex (\w+)\n(.*?)^```", DOC, re.M | re.S):
        digits = "\n".join(line.split("#")[0] for line in text.splitlines())
        digits = re.sub(r"(\w\w) \.\. (\w\w)", lambda ends: bytes(range(int(ends[1], 16), int(ends[2], 16) + 1)).hex(), digits)
        blocks[name] = bytes.fromhex(digits)
    return blocks


def proto_fields():
    """(message, field, number) of tern.proto."""
    fields = []
    for message, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", PROTO, re.M | re.S):
        for field, number in re.findall(r"^\s+(?:repeated )?\w+ (\w+) = (\d+);", body, re.M):
            fields.append((message, field, number))
    return fields


def section(message):
    match = re.search(rf"^### {message}\n(.*?)(?=^#)", DOC + "\n#", re.M | re.S)
    return match.group(1) if match else ""


class ProtocolDocument(unittest.TestCase):
    def test_every_example_is_what_the_encoder_writes(self):
        blocks = documented_bytes()
        names = [line.split()[0] for line in tool("list").decode().splitlines()]
        self.assertEqual(sorted(names), sorted(blocks))
        for name in names:
            self.assertEqual(blocks[name].hex(" "), tool("example", name).hex(" "), name)

    def test_every_field_is_described(self):
        for message, field, number in proto_fields():
            self.assertRegex(section(message), rf"(?m)^\| {number} \| `{field}` \|",
                             f"{message}.{field}")

    def test_text_limits_are_those_of_the_options(self):
        options = re.findall(r"^tern\.(\w+)\.(\w+)\s+max_size:(\d+)", read(
            "shared/wire/tern.options") + read("shared/wire/helper.options"), re.M)
        for message, field, size in options:
            row = re.search(rf"(?m)^\| \d+ \| `{field}` \| (.*)$", section(message)).group(1)
            if row.startswith("string"):
                self.assertIn(f"{int(size) - 1} bytes", row, f"{message}.{field}")
            else:
                self.assertRegex(row, rf"^bytes, (at most )?{size}\b", f"{message}.{field}")

    def test_named_limits_are_those_of_the_header(self):
        header = read("shared/wire/wire.h")
        documented = re.findall(r"^\| `(TERN_WIRE_\w+)` \| ([\d,]+) \|", DOC, re.M)
        self.assertGreaterEqual(len(documented), 6)
        for name, value in documented:
            match = re.search(rf"#define {name} (\d+)", header)
            self.assertIsNotNone(match, name)
            self.assertEqual(value.replace(",", ""), match.group(1), name)

    def test_named_results_exist(self):
        known = set(re.findall(r'X\(TERN_\w+, "([\w-]+)"', read("shared/result.h")))
        table = re.search(r"^## Answers\n(.*?)^## ", DOC, re.M | re.S).group(1)
        names = set(re.findall(r"^\| \d+ \| `([\w-]+)` \|", table, re.M))
        self.assertGreaterEqual(len(names), 10)
        self.assertLessEqual(names, known)


unittest.main(argv=sys.argv[:1])
