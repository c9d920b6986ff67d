#!/usr/bin/env python3
"""What tern-bench codec measures.

    test_tern_bench.py TERN_BENCH TERN_CODEC
"""

import json
import math
import subprocess
import sys

from tern_codec_case import TernCodecCase, main


class Bench(TernCodecCase):
    tern_codec = ""

    def bench(self, *arguments):
        return json.loads(self.run_program("codec", "--quick", "--json", *arguments).stdout)

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
        listed = subprocess.run([self.tern_codec, "codecs", "--json"], capture_output=True, check=True)
        for codec in json.loads(listed.stdout):
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
        error = self.run_program("codec", "--quick", "--kernels", "abacus", code=2).stderr
        self.assertIn("portable", error)

    def test_bench_in_threads(self):
        self.assertEqual(self.bench("--count", "1k", "--threads", "2")["threads"], 2)

    def test_bench_of_few_values(self):
        for count in (1, 2, 5):
            rows = self.bench("--count", str(count))["packed"]
            self.assertEqual({row["count"] for row in rows}, {count})

    def test_bench_prints_tables(self):
        text = self.run_program("codec", "--quick", "--count", "1k").stdout
        for word in ("memcpy", "entropy", "log-normal", "raw normal float32"):
            self.assertIn(word, text)


if __name__ == "__main__":
    Bench.tern_codec = sys.argv.pop(2)
    main()
