#!/usr/bin/env python3
"""tern-codec as a person or a script uses it.

    test_tern_codec.py TERN_CODEC
"""

import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""


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
        for spec, words in (("3lc:s=2.5", ("2.5", "s is 1 to 1.999999")), ("3lc:t=1", ("3lc", "t=1"))):
            error = self.encode(spec, [1], code=2).stderr
            for word in words:
                self.assertIn(word, error)
            self.assertIn("tern-codec codecs", error)

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

    def test_inspect_gives_runs_of_zeros_by_length(self):
        values = [1] + [0] * 5 + [-1, 0, 1] + [0] * 7 + [1] + [0] * 100
        self.encode("3lc", values)
        arguments = ("inspect", self.path("out.tern"), "--count", str(len(values)))
        facts = json.loads(self.run_program(*arguments, "--json").stdout)
        self.assertEqual(facts["zero_runs"], [
            {"from": 1, "to": 1, "runs": 1}, {"from": 4, "to": 7, "runs": 2},
            {"from": 64, "to": 127, "runs": 1}])
        self.assertEqual(facts["magnitudes"], [{"from": 1, "values": 4}])
        text = self.run_program(*arguments).stdout
        self.assertIn("zero runs       4, the longest of 100 values", text)
        self.assertRegex(text, r" 4-7 +2 #{40}\n")
        self.assertRegex(text, r" 64-127 +1 #{20}\n")

    def test_inspect_dense(self):
        values = [2.0 ** -(i % 5) for i in range(1000)]
        self.encode("float32", values)
        arguments = ("inspect", self.path("out.tern"), "--count", "1000")
        facts = json.loads(self.run_program(*arguments, "--json").stdout)
        self.assertAlmostEqual(facts["entropy_bits_per_value"], math.log2(5))
        self.assertEqual([row["from"] for row in facts["magnitudes"]], [1 / 16, 1 / 8, 1 / 4, 0.5, 1])
        self.assertEqual(facts["zero_runs"], [])
        self.assertRegex(self.run_program(*arguments).stdout, r" 0.0625 +200 #{40}\n")

    def test_inspect_of_many_values_has_no_entropy(self):
        self.encode("float16", range(300))
        done = self.run_program("inspect", self.path("out.tern"), "--count", "300", "--json")
        self.assertIsNone(json.loads(done.stdout)["entropy_bits_per_value"])

    # --- codecs

    def codecs(self):
        return json.loads(self.run_program("codecs", "--json").stdout)

    def test_codecs_lists_the_table(self):
        codecs = {codec["name"]: codec for codec in self.codecs()}
        self.assertEqual(codecs["float32"]["parameters"], [])
        ternary = codecs["3lc"]
        self.assertIn("3LC", ternary["source"])
        self.assertEqual(ternary["feedback"], "error buffer")
        self.assertTrue(ternary["downloads"])
        self.assertFalse(ternary["downloads_depend_on_keys"])
        self.assertTrue(codecs["inceptionn"]["downloads_depend_on_keys"])
        keys = {parameter["key"]: parameter for parameter in ternary["parameters"]}
        self.assertEqual(keys["s"]["preset"], "1")
        self.assertIn("1.999999", keys["s"]["range"])
        self.assertIn("zero-run", keys["coder"]["choices"])
        text = self.run_program("codecs").stdout
        for codec in codecs.values():
            for word in (codec["name"], codec["summary"], codec["source"]):
                self.assertIn(word, text)

    def test_every_codec_round_trips(self):
        values = normal(7, 2000)
        for codec in self.codecs():
            with self.subTest(codec["name"]):
                rest = ("--error-buffer", self.path(codec["name"] + ".rest"))
                self.encode(codec["name"], values, *rest, "--seed", "5")
                first = self.get("out.tern")
                size = 2 if "momentum" in codec["feedback"] else 1
                self.assertEqual(len(self.get(codec["name"] + ".rest")), 4 * 2000 * size)
                self.encode(codec["name"], values, *rest, "--seed", "5", "--round", "2")
                self.run_program("decode", self.path("out.tern"), self.path("back"), "--count", "2000")
                self.run_program("inspect", self.path("out.tern"), "--count", "2000")
                os.remove(self.path(codec["name"] + ".rest"))
                self.encode(codec["name"], values, *rest, "--seed", "5")
                self.assertEqual(self.get("out.tern"), first)

    def test_threads_change_no_byte(self):
        values = normal(2, 300000)
        self.encode("3lc", values)
        alone = self.get("out.tern")
        for threads in ("0", "3"):
            self.encode("3lc", values, "--threads", threads)
            self.assertEqual(self.get("out.tern"), alone)
        rows = self.compare(self.path("in.f32"), "--codecs", "3lc", "--threads", "2")["codecs"]
        self.assertEqual(rows[0]["bytes"], len(alone))
        self.assertEqual(self.bench("--count", "1k", "--threads", "2")["threads"], 2)
        self.encode("3lc", [1], "--threads", "1000", code=2)

    # --- safetensors

    TENSORS = [("w", "F32", [2, 3], [4, -4, 0, 1, 0, 4]), ("half", "F16", [3], [0.5, -0.25, 65504]),
               ("steps", "I64", [], [7]), ("b", "BF16", [2, 1], [1.5, -2]), ("none", "F32", [0], [])]

    def put_tensors(self, name="in.safetensors"):
        return self.put(name, safetensors(self.TENSORS))

    def read_floats(self, name):
        data = self.get(name)
        return list(struct.unpack("<%df" % (len(data) // 4), data))

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
            done = subprocess.run([PROGRAM, "encode", "float32", path, self.path("out")],
                                  capture_output=True)
            self.assertIn(done.returncode, (0, 1), bytes(bad))

    def test_unknown_dtype_is_left_out(self):
        data = safetensors([("new", "F32", [2], [1, 2]), ("w", "F32", [1], [3])], new={"dtype": "F4"})
        path = self.put("in.safetensors", data)
        done = self.run_program("encode", "float32", path, self.path("out.tern"))
        self.assertIn("new (F4)", done.stderr)
        self.assertEqual(self.get("out.tern"), b"\5\1" + floats(3))

    # --- compare

    def compare(self, *arguments):
        return json.loads(self.run_program("compare", *arguments, "--json").stdout)

    def test_compare(self):
        path = self.put("in.f32", floats(*[2, 0, -1, 0] * 250))
        rows = self.compare(path, "--codecs", "float32; 3lc:s=1,coder=packed 3lc:s=1.5")["codecs"]
        self.assertEqual([row["codec"] for row in rows],
                         ["float32", "3lc:s=1,coder=packed", "3lc:s=1.5"])
        self.assertEqual([row["bytes"] for row in rows[:2]], [4001, 205])
        self.assertAlmostEqual(rows[1]["bits_per_value"], 1.64)
        self.assertAlmostEqual(rows[1]["ratio"], 4000 / 205)
        # 2 0 -1 0 becomes 2 0 0 0 (-1 is not beyond the threshold), and with s = 1.5, 3 0 0 0.
        self.assertEqual([row["relative_error"] for row in rows], [0, 0.2, 0.4])
        self.assertEqual([row["density"] for row in rows], [0.5, 0.25, 0.25])
        for row in rows:
            self.assertGreater(row["encode_gb_per_s"], 0)
            self.assertGreater(row["decode_gb_per_s"], 0)
        text = self.run_program("compare", path, "--codecs", "3lc").stdout
        self.assertRegex(text, r"3lc:s=1 .* 0\.200000 ")

    def test_compare_tries_every_codec(self):
        values = normal(1, 500)
        rows = self.compare(self.put("in.f32", floats(*values)))["codecs"]
        specs = [row["codec"] for row in rows]
        self.assertEqual(len(specs), len(set(specs)))
        for codec in self.codecs():
            mine = [spec for spec in specs if spec.split(":")[0] == codec["name"]]
            self.assertTrue(mine, codec["name"])
            for parameter in codec["parameters"]:
                for choice in parameter.get("choices", [])[1:]:
                    self.assertTrue(any("=" + choice in spec for spec in mine) or
                                    parameter["preset"] == choice, (codec["name"], choice))
        self.assertIn("3lc:s=1.75", specs)

    def test_compare_tensors(self):
        path = self.put_tensors()
        facts = self.compare(path, "--codecs", "float32", "--per-tensor")
        self.assertEqual([(row["tensor"], row["count"]) for row in facts["tensors"]],
                         [("w", 6), ("half", 3), ("b", 2), ("none", 0)])
        self.assertEqual(facts["codecs"][0]["count"], 11)
        self.assertEqual(facts["codecs"][0]["bytes"], sum(row["bytes"] for row in facts["tensors"]))
        self.assertEqual(self.compare(path, "--codecs", "3lc", "--tensor", "b")["count"], 2)
        self.assertIn("half", self.run_program("compare", path, "--per-tensor", "--codecs", "3lc").stdout)

    def test_compare_of_too_large_values(self):
        path = self.put("in.f32", floats(1, 70000))
        rows = self.compare(path, "--codecs", "float16 float32")["codecs"]
        self.assertIn("too large", rows[0]["refused"])
        self.assertEqual(rows[1]["relative_error"], 0)
        text = self.run_program("compare", path, "--codecs", "float16").stdout
        self.assertIn("too large", text)

    def test_compare_refuses_wrong_specs(self):
        path = self.put("in.f32", floats(1))
        for specs in ("3lc zip", "", " ; ", "3lc:s=9", "x" * 500):
            self.run_program("compare", path, "--codecs", specs, code=2)
        self.compare(self.put("empty.f32", b""))

    def test_help_version_and_wrong_usage(self):
        verbs = ("codecs", "encode", "decode", "inspect", "compare", "bench")
        for arguments in [("--help",)] + [(verb, "--help") for verb in verbs]:
            text = self.run_program(*arguments).stdout
            self.assertIn("tern-codec", text)
            self.assertIn("Example", text)
        self.assertRegex(self.run_program("--version").stdout, r"\d+\.\d+\.\d+")
        self.run_program(code=2)
        self.run_program("compress", code=2)
        self.run_program("encode", "3lc", code=2)

    def bench(self, *arguments):
        return json.loads(self.run_program("bench", "--quick", "--json", *arguments).stdout)

    def test_bench(self):
        saved = self.path("bench.json")
        tables = self.bench("--count", "20000", "--save", saved)
        with open(saved, encoding="utf-8") as file:
            self.assertEqual(json.load(file), tables)
        self.assertGreater(tables["memcpy_gb_per_s"], 0)
        for row in tables["speed"]:
            for key in ("memcpy", "encode", "decode", "accumulate"):
                self.assertGreater(row[key + "_gb_per_s"], 0)
        rows = {(row["codec"], row["count"]): row for row in tables["speed"]}
        self.assertAlmostEqual(rows["float16", 20000]["bits_per_value"], 16, places=2)
        self.assertIn(("3lc:s=1.75", 20000), rows)
        for codec in self.codecs():
            self.assertTrue(any(name.split(":")[0] == codec["name"] for name, _ in rows))

    def test_bench_holds_coders_against_the_entropy(self):
        tables = self.bench("--count", "20000")
        self.assertEqual({row["density"] for row in tables["coders"]}, {0.2, 0.07, 0.03, 0.02, 0.01})
        for row in tables["coders"]:
            p = row["density"]
            entropy = -(1 - p) * math.log2(1 - p) - p * math.log2(p / 2)
            self.assertAlmostEqual(row["entropy_bits_per_value"], entropy, places=3)
            self.assertAlmostEqual(row["bits_per_value"] / row["entropy_bits_per_value"],
                                   row["entropy_ratio"])
        self.assertEqual({row["density"] for row in tables["rows"]}, {0.05})
        coders = {row["coder"] for row in tables["coders"]}
        self.assertEqual(coders, {row["coder"] for row in tables["rows"]})
        self.assertLessEqual({"zero-run", "packed"}, coders)
        methods = {row["method"] for row in tables["packed"]}
        self.assertIn("3lc:coder=packed", methods)
        self.assertIn("float32", {row["method"] for row in tables["floats"]})

    def test_bench_of_other_kernels(self):
        self.assertEqual(self.bench("--count", "1k", "--kernels", "portable")["kernels"], "portable")
        error = self.run_program("bench", "--quick", "--kernels", "abacus", code=2).stderr
        self.assertIn("portable", error)

    def test_bench_prints_tables(self):
        text = self.run_program("bench", "--quick", "--count", "1k").stdout
        for word in ("memcpy", "entropy", "log-normal", "raw normal float32"):
            self.assertIn(word, text)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
