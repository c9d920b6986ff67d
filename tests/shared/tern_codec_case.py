"""What the tests of tern-codec share: files to give it, and a case that runs it."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


def normal(seed, count):
    dice = random.Random(seed)
    return [dice.gauss(0, 1) for _ in range(count)]


# How struct writes a value.
DTYPES = {"F32": "f", "F16": "e", "I64": "q", "F64": "d"}


def pack(dtype, values):
    """Little-endian values; a bfloat16 is the high half of a float32."""
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack("<%d%s" % (len(values), DTYPES[dtype]), *values)


def safetensors(tensors, **changes):
    """A safetensors file of (name, dtype, shape, values); changes: fields of one tensor's header
    entry, by name, that are replaced."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, values in tensors:
        raw = pack(dtype, values)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    for name, fields in changes.items():
        header[name].update(fields)
    text = json.dumps(header).encode() + b"   "
    return struct.pack("<Q", len(text)) + text + data


class TernCodecCase(unittest.TestCase):
    program = ""

    TENSORS = [("w", "F32", [2, 3], [4, -4, 0, 1, 0, 4]), ("half", "F16", [3], [0.5, -0.25, 65504]),
               ("steps", "I64", [], [7]), ("b", "BF16", [2, 1], [1.5, -2]), ("none", "F32", [0], [])]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def get(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_program(self, *arguments, code=0):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def encode(self, spec, values, *arguments, **expected):
        path = self.put("in.f32", floats(*values))
        return self.run_program("encode", spec, path, self.path("out.tern"), *arguments, **expected)

    def pipe(self, data, *arguments):
        done = subprocess.run([self.program, *arguments], input=data, capture_output=True,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def put_tensors(self, name="in.safetensors"):
        return self.put(name, safetensors(self.TENSORS))

    def read_floats(self, name):
        data = self.get(name)
        return list(struct.unpack("<%df" % (len(data) // 4), data))

    def codecs(self):
        return json.loads(self.run_program("codecs", "--json").stdout)

    def compare(self, *arguments):
        return json.loads(self.run_program("compare", *arguments, "--json").stdout)


def main():
    """Runs the test cases of the script; its first argument is the program."""
    TernCodecCase.program = sys.argv.pop(1)
    unittest.main()
