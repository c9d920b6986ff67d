"""Messages against protoc, an independent implementation of protobuf.

Usage: test_protoc.py WIRE_TOOL SOURCE_DIR

Whatever Tern's decoder takes, protoc takes too and understands the same: its re-encoding is equal
byte for byte. Exits with 77 (skipped) where protoc is not installed.
"""
import random
import re
import shutil
import subprocess
import sys
import unittest

TOOL, SOURCE = sys.argv[1], sys.argv[2]
MUTATIONS = 40


def run(command, data=b""):
    return subprocess.run(command, input=data, capture_output=True, check=False)


def protoc(direction, message, data):
    return run(["protoc", f"--{direction}={message}", f"-I{SOURCE}/shared/wire", "tern.proto", "helper.proto"],
               data)


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(data))
        kind = rng.randrange(3)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif len(data) > 2:
            del data[at]
    return bytes(data)


class AgainstProtoc(unittest.TestCase):
    def setUp(self):
        lines = run([TOOL, "list"]).stdout.decode().splitlines()
        self.examples = [line.split() for line in lines]

    def test_examples_mean_the_same_to_protoc(self):
        for name, message in self.examples:
            data = run([TOOL, "example", name]).stdout
            text = protoc("decode", message, data)
            self.assertEqual(text.returncode, 0, name)
            self.assertNotRegex(text.stdout, rb"(?m)^\s*\d+[ :]", f"{name}: unknown field")
            self.assertEqual(protoc("encode", message, text.stdout).stdout, data, name)

    def test_what_is_taken_damaged_means_the_same_to_protoc(self):
        rng = random.Random(2)
        compared = 0
        for name, message in self.examples:
            data = run([TOOL, "example", name]).stdout
            for _ in range(MUTATIONS):
                compared += self.compare(name, message, mutate(rng, data))
        self.assertGreater(compared, 40)

    def compare(self, name, message, damaged):
        ours = run([TOOL, "decode", name], damaged)
        if ours.returncode != 0:
            self.assertEqual(ours.returncode, 1, damaged.hex())
            return 0
        text = protoc("decode", message, damaged)
        self.assertEqual(text.returncode, 0, f"{name} {damaged.hex()}")
        if re.search(rb"(?m)^\s*\d+[ :]", text.stdout):
            return 0  # an unknown field, which protoc keeps and Tern skips
        theirs = protoc("encode", message, text.stdout)
        self.assertEqual(ours.stdout.hex(), theirs.stdout.hex(), f"{name} {damaged.hex()}")
        return 1


if shutil.which("protoc") is None:
    print("skipped: protoc is not installed (Debian package protobuf-compiler)")
    sys.exit(77)
unittest.main(argv=sys.argv[:1])
