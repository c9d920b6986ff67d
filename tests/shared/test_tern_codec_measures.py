#!/usr/bin/env python3
"""What tern-codec compare measures.

    test_tern_codec_measures.py TERN_CODEC
"""

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


if __name__ == "__main__":
    main()
