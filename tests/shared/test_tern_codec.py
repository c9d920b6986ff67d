#!/usr/bin/env python3
"""tern-codec as a person or a script uses it.

    test_tern_codec.py TERN_CODEC
"""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


class TernCodec(unittest.TestCase):
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
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def encode(self, spec, values, *arguments, **expected):
        path = self.put("in.f32", floats(*values))
        return self.run_program("encode", spec, path, self.path("out.tern"), *arguments, **expected)

    def test_round_trip(self):
        self.encode("3lc", [2, -2, 0.5, 0, 2])
        self.run_program("decode", self.path("out.tern"), self.path("back.f32"), "--count", "5")
        self.assertEqual(self.get("back.f32"), floats(2, -2, 0, 0, 2))

    def test_error_buffer_carries_over(self):
        rest = ("--error-buffer", self.path("rest.f32"))
        self.encode("3lc", [2, 0.75, 0, -0.25], *rest)
        self.assertEqual(self.get("rest.f32"), floats(0, 0.75, 0, -0.25))
        self.encode("3lc", [0, 0.75, 0, -0.25], *rest)  # 0 1.5 0 -0.5
        self.run_program("decode", self.path("out.tern"), self.path("back.f32"), "--count", "4")
        self.assertEqual(self.get("back.f32"), floats(0, 1.5, 0, 0))
        self.assertEqual(self.get("rest.f32"), floats(0, 0, 0, -0.5))

    def test_error_buffer_of_another_size_is_refused(self):
        self.put("rest.f32", floats(1, 2, 3))
        done = self.encode("3lc", [1, 2], "--error-buffer", self.path("rest.f32"), code=1)
        self.assertIn("3 values", done.stderr)
        self.assertEqual(self.get("rest.f32"), floats(1, 2, 3))
        self.assertFalse(os.path.exists(self.path("out.tern")))

    def test_bad_values_change_nothing(self):
        self.put("rest.f32", floats(1, 2, 3))
        self.put("out.tern", b"old")
        for bad in (math.nan, math.inf):
            rest = ("--error-buffer", self.path("rest.f32"))
            done = self.encode("3lc", [1, bad, 2], *rest, code=1)
            self.assertIn("value 1", done.stderr)
        done = self.encode("float16", [1, 70000], code=1)
        self.assertIn("too large", done.stderr)
        self.assertEqual(self.get("rest.f32"), floats(1, 2, 3))
        self.assertEqual(self.get("out.tern"), b"old")

    def test_lost_payload_leaves_the_error_buffer(self):
        self.put("rest.f32", floats(1, 2))
        path = self.put("in.f32", floats(1, 1))
        nowhere = self.path("no/such/folder")
        rest = ("--error-buffer", self.path("rest.f32"))
        self.run_program("encode", "3lc", path, nowhere, *rest, code=1)
        self.assertEqual(self.get("rest.f32"), floats(1, 2))
        rest = ("--error-buffer", nowhere)
        self.run_program("encode", "3lc", path, self.path("out.tern"), *rest, code=1)
        self.assertFalse(os.path.exists(self.path("out.tern")))

    def test_dash_is_the_standard_input_and_output(self):
        path = self.put("in.f32", floats(2, -2, 0.5, 0, 2))
        payload = self.pipe(b"", "encode", "3lc", path, "-")
        self.encode("3lc", [2, -2, 0.5, 0, 2])
        self.assertEqual(payload, self.get("out.tern"))
        self.assertEqual(self.pipe(floats(2, -2, 0.5, 0, 2), "encode", "3lc", "-", "-"), payload)
        values = self.pipe(payload, "decode", "-", "-", "--count", "5")
        self.assertEqual(values, floats(2, -2, 0, 0, 2))
        self.assertFalse(os.path.exists(self.path("-")))
        done = self.encode("3lc", [1], "--error-buffer", "-", code=2)
        self.assertIn("--error-buffer", done.stderr)

    def pipe(self, data, *arguments):
        done = subprocess.run([PROGRAM, *arguments], input=data, capture_output=True,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_full_output_is_a_failure(self):
        path = self.put("in.f32", floats(1, 2))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "encode", "3lc", path, "-"], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("output", done.stderr)

    def test_help_says_exit_codes_once(self):
        self.assertEqual(self.run_program("--help").stdout.count("Exit codes"), 1)

    def test_wrong_spec_lists_the_codecs(self):
        self.assertIn("3lc", self.encode("zip", [1], code=2).stderr)
        self.assertIn("2.5", self.encode("3lc:s=2.5", [1], code=2).stderr)

    def test_missing_or_odd_files(self):
        nowhere = self.path("nothing")
        done = self.run_program("encode", "3lc", nowhere, self.path("out"), code=1)
        self.assertIn("nothing", done.stderr)
        odd = self.put("odd.f32", b"\0" * 7)
        done = self.run_program("encode", "3lc", odd, self.path("out"), code=1)
        self.assertIn("7 bytes", done.stderr)
        self.run_program("decode", nowhere, self.path("out"), "--count", "3", code=1)

    def test_empty_input(self):
        self.encode("3lc", [])
        self.assertEqual(self.get("out.tern"), b"\0")
        self.run_program("decode", self.path("out.tern"), self.path("back.f32"), "--count", "0")
        self.assertEqual(self.get("back.f32"), b"")

    def test_damaged_payload_writes_nothing(self):
        self.encode("3lc", [1] * 20)
        self.put("back.f32", b"old")
        for count in ("19", "21", "1000000"):
            name = self.path("out.tern")
            done = self.run_program("decode", name, self.path("back.f32"), "--count", count, code=1)
            self.assertIn("--count", done.stderr)
            self.run_program("inspect", name, "--count", count, code=1)
        self.assertEqual(self.get("back.f32"), b"old")

    def test_count_is_needed(self):
        self.encode("3lc", [1])
        for verb in (("decode", self.path("out.tern"), self.path("o")), ("inspect", self.path("out.tern"))):
            self.assertIn("--count", self.run_program(*verb, code=2).stderr)
            self.run_program(*verb, "--count", "x", code=2)

    def test_inspect(self):
        values = [0.0] * 1000
        values[::100] = [1.0, -1.0] * 5
        self.encode("3lc", values)
        done = self.run_program("inspect", self.path("out.tern"), "--count", "1000", "--json")
        facts = json.loads(done.stdout)
        self.assertEqual(facts["mode"], "ternary-zero-run")
        self.assertEqual(facts["nonzero"], 10)
        self.assertEqual(facts["density"], 0.01)
        self.assertEqual(facts["scale"], 1)
        size = os.path.getsize(self.path("out.tern"))
        self.assertEqual(facts["bytes"], size)
        self.assertAlmostEqual(facts["bits_per_value"], 8 * size / 1000)
        entropy = -0.99 * math.log2(0.99) - 2 * 0.005 * math.log2(0.005)
        self.assertAlmostEqual(facts["entropy_bits_per_value"], entropy)
        text = self.run_program("inspect", self.path("out.tern"), "--count", "1000").stdout
        self.assertIn("0.0100", text)
        self.assertIn("entropy 0.091", text)

    def test_inspect_dense_has_no_ternary_entropy(self):
        self.encode("float16", [1, 2, 3])
        done = self.run_program("inspect", self.path("out.tern"), "--count", "3", "--json")
        self.assertIsNone(json.loads(done.stdout)["entropy_bits_per_value"])

    def test_help_version_and_wrong_usage(self):
        for arguments in (("--help",), ("encode", "--help"), ("decode", "--help")):
            text = self.run_program(*arguments).stdout
            self.assertIn("tern-codec", text)
            self.assertIn("Example", text)
        self.assertRegex(self.run_program("--version").stdout, r"\d+\.\d+\.\d+")
        self.run_program(code=2)
        self.run_program("compress", code=2)
        self.run_program("encode", "3lc", code=2)

    def test_bench(self):
        rows = json.loads(self.run_program("bench", "--count", "200000", "--json").stdout)
        self.assertEqual(len(rows), 8)
        for row in rows:
            for key in ("memcpy", "encode", "decode", "accumulate"):
                self.assertGreater(row[key + "_gb_per_s"], 0)
        float16 = [row for row in rows if row["codec"] == "float16"]
        self.assertAlmostEqual(float16[0]["bits_per_value"], 16, places=2)
        self.assertIn("memcpy", self.run_program("bench", "--count", "1k").stdout)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
