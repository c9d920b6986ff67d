#!/usr/bin/env python3
"""What tern-codec compare and bench measure.

    test_tern_codec_measures.py TERN_CODEC
"""

import json
import math

from tern_codec_case import TernCodecCase, floats, main, normal


class Measures(TernCodecCase):
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

    def test_bench_of_few_values(self):
        for count in (1, 2, 5):
            rows = self.bench("--count", str(count))["packed"]
            self.assertEqual({row["count"] for row in rows}, {count})

    def test_bench_prints_tables(self):
        text = self.run_program("bench", "--quick", "--count", "1k").stdout
        for word in ("memcpy", "entropy", "log-normal", "raw normal float32"):
            self.assertIn(word, text)


if __name__ == "__main__":
    main()
