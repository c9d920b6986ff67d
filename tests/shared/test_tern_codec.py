#!/usr/bin/env python3
"""tern-codec as a person or a script uses it.

    test_tern_codec.py TERN_CODEC
"""

import json
import math
import os
import subprocess

from tern_codec_case import TernCodecCase, floats, main, normal


class TernCodec(TernCodecCase):
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

    def test_full_output_is_a_failure(self):
        path = self.put("in.f32", floats(1, 2))
        with open("/dev/full", "wb") as full:
            done = subprocess.run([self.program, "encode", "3lc", path, "-"], stdout=full,
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
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        text = " ".join(text.split())
        for codec in codecs.values():
            for word in (codec["name"], codec["summary"], codec["source"], codec["good_for"], codec["not_for"]):
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
        self.encode("3lc", [1], "--threads", "1000", code=2)

    def test_help_version_and_wrong_usage(self):
        verbs = ("codecs", "encode", "decode", "inspect", "compare")
        for arguments in [("--help",)] + [(verb, "--help") for verb in verbs]:
            text = self.run_program(*arguments).stdout
            self.assertIn("tern-codec", text)
            self.assertIn("Example", text)
        self.assertRegex(self.run_program("--version").stdout, r"\d+\.\d+\.\d+")
        self.run_program(code=2)
        self.run_program("compress", code=2)
        self.run_program("encode", "3lc", code=2)


if __name__ == "__main__":
    main()
