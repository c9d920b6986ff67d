#!/usr/bin/env python3
"""tern-codec on safetensors files.

    test_tern_codec_safetensors.py TERN_CODEC
"""

import json
import math
import os
import random
import struct
import subprocess

from tern_codec_case import TernCodecCase, floats, main, safetensors


class Safetensors(TernCodecCase):
    def test_all_tensors_are_one_container(self):
        path = self.put_tensors()
        done = self.run_program("encode", "float32", path, self.path("out.tern"))
        self.assertIn("steps (I64)", done.stderr)
        like = ("--like", path)
        self.run_program("decode", self.path("out.tern"), self.path("back.f32"), *like)
        self.assertEqual(self.read_floats("back.f32"),
                         [4, -4, 0, 1, 0, 4, 0.5, -0.25, 65504, 1.5, -2])
        # docs/FORMAT.md, section 2: each payload behind its length.
        self.assertEqual(self.get("out.tern")[:2], bytes([1 + 24, 1]))
        self.assertEqual(len(self.get("out.tern")), 4 + 4 + 11 * 4)

    def test_decode_writes_safetensors(self):
        path = self.put_tensors()
        self.run_program("encode", "3lc", path, self.path("out.tern"))
        back = self.path("back.safetensors")
        self.run_program("decode", self.path("out.tern"), back, "--like", path)
        rows = json.loads(self.run_program("inspect", back, "--json").stdout)["tensors"]
        self.assertEqual([(row["tensor"], row["dtype"], row["shape"]) for row in rows],
                         [("w", "F32", "[2,3]"), ("half", "F32", "[3]"), ("b", "F32", "[2,1]"),
                          ("none", "F32", "[0]")])
        raw = self.get("back.safetensors")
        self.assertEqual((8 + struct.unpack("<Q", raw[:8])[0]) % 8, 0)
        self.assertEqual(raw[-11 * 4:], floats(4, -4, 0, 0, 0, 4, 0, 0, 65504, 2, -2))

    def test_one_tensor_is_one_payload(self):
        path = self.put_tensors()
        self.run_program("encode", "float32", "--tensor", "half", path, self.path("out.tern"))
        self.assertEqual(self.get("out.tern"), b"\1" + floats(0.5, -0.25, 65504))
        for size in (("--count", "3"), ("--like", path, "--tensor", "half")):
            self.run_program("decode", self.path("out.tern"), self.path("back.f32"), *size)
            self.assertEqual(self.read_floats("back.f32"), [0.5, -0.25, 65504])

    def test_wrong_choice_of_tensor(self):
        path = self.put_tensors()
        out = self.path("out.tern")
        done = self.run_program("encode", "3lc", path, out, "--tensor", "v", code=1)
        for word in ("'v'", "w (F32)", "half (F16)"):
            self.assertIn(word, done.stderr)
        done = self.run_program("encode", "3lc", path, out, "--tensor", "steps", code=1)
        self.assertIn("steps is I64", done.stderr)
        raw = self.put("in.f32", floats(1))
        done = self.run_program("encode", "3lc", raw, out, "--tensor", "w", code=2)
        self.assertIn("--tensor", done.stderr)
        whole = self.put("int.safetensors", safetensors([("i", "I64", [1], [1])]))
        self.assertIn("no tensor is", self.run_program("encode", "3lc", whole, out, code=1).stderr)
        done = self.run_program("decode", raw, out, "--tensor", "w", "--count", "1", code=2)
        self.assertIn("--like", done.stderr)
        self.run_program("decode", raw, out, "--like", path, "--count", "1", code=2)
        self.assertFalse(os.path.exists(out))

    def test_safetensors_without_the_name(self):
        data = safetensors(self.TENSORS)
        self.put("in.safetensors", data)
        self.run_program("encode", "3lc", self.path("in.safetensors"), self.path("out.tern"))
        self.assertEqual(self.pipe(data, "encode", "3lc", "-", "-"), self.get("out.tern"))

    def test_error_buffer_of_many_tensors(self):
        path = self.put_tensors()
        rest = ("--error-buffer", self.path("rest.f32"))
        self.run_program("encode", "3lc", path, self.path("out.tern"), *rest)
        self.assertEqual(self.read_floats("rest.f32"),
                         [0, 0, 0, 1, 0, 0, 0.5, -0.25, 0, -0.5, 0])

    def test_bad_value_is_named(self):
        path = self.put("in.safetensors", safetensors(
            [("good", "F32", [2], [1, 2]), ("bad", "F16", [3], [1, 2, math.nan])]))
        for verb in (("encode", "3lc", path, self.path("out.tern")), ("compare", path)):
            self.assertIn("bad: value 2 is nan", self.run_program(*verb, code=1).stderr)
        self.assertFalse(os.path.exists(self.path("out.tern")))

    def test_container_of_other_tensors_is_refused(self):
        path = self.put_tensors()
        self.run_program("encode", "3lc", path, self.path("out.tern"))
        other = self.put("other.safetensors", safetensors([("x", "F32", [900], [0] * 900)]))
        done = self.run_program("decode", self.path("out.tern"), self.path("o"), "--like", other, code=1)
        self.assertIn("behind its last tensor", done.stderr)
        swapped = [("w", "F32", [90], [0] * 90)] + self.TENSORS[1:]
        other = self.put("other.safetensors", safetensors(swapped))
        done = self.run_program("decode", self.path("out.tern"), self.path("o"), "--like", other, code=1)
        self.assertIn("90 values at tensor w", done.stderr)
        container = self.get("out.tern")
        for damaged in (container[:-1], container + b"\0", b"\x80" * 11 + container, b""):
            name = self.put("damaged.tern", damaged)
            self.run_program("decode", name, self.path("o"), "--like", path, code=1)
            self.run_program("inspect", name, "--like", path, code=1)
        self.assertFalse(os.path.exists(self.path("o")))

    def test_inspect_safetensors(self):
        rows = json.loads(self.run_program("inspect", self.put_tensors(), "--json").stdout)["tensors"]
        self.assertEqual([row["tensor"] for row in rows], ["w", "half", "steps", "b", "none"])
        self.assertEqual((rows[0]["nonzero"], rows[0]["maximum"], rows[0]["norm"]), (4, 4, 7))
        self.assertNotIn("norm", rows[2])
        self.assertIn("[2,3]", self.run_program("inspect", self.path("in.safetensors")).stdout)

    def test_inspect_container(self):
        path = self.put_tensors()
        self.run_program("encode", "3lc", path, self.path("out.tern"))
        arguments = ("inspect", self.path("out.tern"), "--like", path)
        facts = json.loads(self.run_program(*arguments, "--json").stdout)
        self.assertEqual(facts["bytes"], len(self.get("out.tern")))
        self.assertEqual(facts["count"], 11)
        self.assertEqual([(row["tensor"], row["nonzero"]) for row in facts["tensors"]],
                         [("w", 3), ("half", 1), ("b", 2), ("none", 0)])
        self.assertIn("ternary-zero-run", self.run_program(*arguments).stdout)

    def hostile_files(self):
        """(bytes, words of the error) of files that are not safetensors."""
        good = safetensors(self.TENSORS)
        two = [("a", "F32", [2], [1, 2]), ("b", "F32", [2], [3, 4])]
        header = struct.unpack("<Q", good[:8])[0]

        def made(text, data=b""):
            return struct.pack("<Q", len(text)) + text + data

        entry = b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
        yield b"", ("0 bytes",)
        yield good[:7], ("7 bytes",)
        yield good[:100], ("truncated",)
        yield good[:-1], ("data", "truncated")
        yield struct.pack("<Q", 2 ** 63) + good[8:], ("9223372036854775808", "only")
        yield struct.pack("<Q", header - 9) + good[8:], ("not JSON",)
        yield made(b"{" * 20000), ("not JSON",)
        yield made(b"[1]"), ("object",)
        yield made(b"[" * 300 + b"]" * 300), ("object",)
        yield made(entry + b"} x", floats(1)), ("object",)
        yield made(b'{"x":3}'), ("'x'",)
        yield made(b'{"x\\u001b[31m":3}'), ("control",)
        yield made(b'{"\xff":3}'), ("UTF-8",)
        yield made(entry + b',"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
                   floats(1, 2)), ("two tensors", "'x'")
        yield made(entry + b"}", floats(1, 2)), ("4 bytes behind",)
        yield safetensors(two, b={"data_offsets": [4, 12]}), ("overlap", "'a'", "'b'")
        yield safetensors(two, a={"data_offsets": [0, 16]}), ("'a'", "16 bytes")
        yield safetensors(two, a={"data_offsets": [0, 4], "shape": [1]}), ("4 bytes in front", "'b'")
        yield safetensors(two, b={"data_offsets": [8, 20]}), ("'b'", "20", "16")
        yield safetensors(two, b={"data_offsets": [16, 8]}), ("'b'", "[begin, end]")
        yield safetensors(two, b={"data_offsets": [-8, 8]}), ("'b'", "data_offsets")
        yield safetensors(two, b={"data_offsets": [8.5, 16]}), ("'b'", "data_offsets")
        yield safetensors(two, b={"data_offsets": [8, 1e300]}), ("'b'", "data_offsets")
        yield safetensors(two, b={"data_offsets": [8]}), ("'b'", "data_offsets")
        yield safetensors(two, b={"data_offsets": {"x": 8, "y": 16}}), ("'b'",)
        yield safetensors(two, b={"shape": [3]}), ("'b'", "3 values of 4 bytes", "8 bytes")
        yield safetensors(two, b={"shape": [-2]}), ("'b'", "shape")
        yield safetensors(two, b={"shape": "2"}), ("'b'", "shape")
        yield safetensors(two, b={"shape": [2 ** 52, 2 ** 52]}), ("'b'", "too large")
        yield safetensors(two, b={"shape": [2 ** 31, 2 ** 31]}), ("'b'", "bytes")
        yield safetensors(two, b={"dtype": "F16"}), ("'b'", "F16", "2 bytes")
        yield safetensors(two, b={"dtype": 3}), ("'b'", "dtype")

    def test_hostile_safetensors(self):
        out = self.path("out")
        for data, words in self.hostile_files():
            with self.subTest(words):
                path = self.put("bad.safetensors", data)
                for verb in (("encode", "3lc", path, out), ("inspect", path), ("compare", path)):
                    error = self.run_program(*verb, code=1).stderr
                    for word in ("bad.safetensors",) + words:
                        self.assertIn(word, error)
        self.assertFalse(os.path.exists(out))

    def test_damaged_safetensors_never_crash(self):
        good = safetensors(self.TENSORS)
        dice = random.Random(3)
        for _ in range(150):
            bad = bytearray(good)
            for _ in range(dice.randint(1, 3)):
                bad[dice.randrange(len(bad))] = dice.choice(b'0917{}[]",:\\ \xff\0-e.')
            path = self.put("bad.safetensors", bytes(bad))
            done = subprocess.run([self.program, "encode", "float32", path, self.path("out")],
                                  capture_output=True)
            self.assertIn(done.returncode, (0, 1), bytes(bad))

    def test_unknown_dtype_is_left_out(self):
        data = safetensors([("new", "F32", [2], [1, 2]), ("w", "F32", [1], [3])], new={"dtype": "F4"})
        path = self.put("in.safetensors", data)
        done = self.run_program("encode", "float32", path, self.path("out.tern"))
        self.assertIn("new (F4)", done.stderr)
        self.assertEqual(self.get("out.tern"), b"\5\1" + floats(3))


if __name__ == "__main__":
    main()
