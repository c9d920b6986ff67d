"""The papers' claims beside figures: on values drawn here, and what docs/BENCHMARKS.md says of both."""
import os
import pathlib
import random
import re
import struct
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
CODEC = pathlib.Path(os.environ["TERN_BUILD_DIR"]) / "bin" / "tern-codec"
sys.path.insert(0, str(SOURCE / "lab" / "bench"))
import papers  # noqa: E402

COUNT = 40000


def labels():
    """Returns the labels of the runs in papers.ini, which has the key `run` many times."""
    lines = (SOURCE / "configs" / "experiments" / "papers.ini").read_text().splitlines()
    return [line.split("=", 1)[1].split("|")[0].strip() for line in lines if line.startswith("run =")]


def section(document, heading):
    text = (SOURCE / "docs" / document).read_text().split("\n## %s\n" % heading, 1)[1]
    return text.split("\n## ", 1)[0]


def documented(heading):
    """Rows of the first table below a heading of BENCHMARKS.md, as lists of cells."""
    rows = []
    for line in section("BENCHMARKS.md", heading).splitlines():
        if line.startswith("| "):
            rows.append([cell.strip() for cell in line.strip("| ").split(" | ")])
        elif rows:
            break
    return rows[2:]


def figures_in(template, text):
    """The numbers of a text that a template made, or None where it did not."""
    parts = re.split(r"%[+.0-9]*[fd]", template)
    found = re.fullmatch(r"([-+.0-9]+)".join(re.escape(part.replace("%%", "%")) for part in parts), text)
    return [float(number) for number in found.groups()] if found else None


class Papers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = os.path.join(cls.folder.name, "values")
        drawn = random.Random(3)
        with open(path, "wb") as file:
            file.write(struct.pack("<%df" % COUNT, *(drawn.gauss(0, 0.003) for _ in range(COUNT))))
        rows = [{"label": label, "bits_up": 2.0, "bits_down": 4.0,
                 "global_accuracy": 0.75 if label == "float32" else 0.5} for label in labels()]
        convex = {"qsvrg_even_mean_rate": 0.2, "qsvrg_even_worst_rate": 0.25, "qsvrg_even_bits_counted": 300,
                  "qsvrg_even_bits_bound": 400, "qsvrg_classes_mean_rate": 0.1, "qsvrg_classes_worst_rate": 0.5,
                  "qsvrg_classes_bits_counted": 100, "qsvrg_classes_bits_bound": 200}
        lgc = {"float32": {"accuracy": 0.75},
               "lgc, server": {"accuracy": 0.5, "bits_up": 3.0, "bits_autoencoder": 1.0,
                               "phases": {"coded": {"leader_bits_up": 0.5, "follower_bits_up": 0.25}}}}
        cls.measured = papers.Measured(str(CODEC), path, rows, convex, {"large": lgc})
        cls.rows = {row[0]: row for row in papers.table(cls.measured)}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_figures_are_of_the_runs(self):
        self.assertEqual(self.rows["3LC, s = 1"][3], "2.00 up, 4.00 down; 11 times")
        self.assertEqual(self.rows["QSGD, 4 bit, buckets of 512"][3], "-25.00 points")
        self.assertEqual(self.rows["QSVRG"][3], "0.10 to 0.20, at worst 0.50; 0.50 to 0.75 of the bits")
        self.assertIn("16 times, -25.0 points", self.rows["Sparse GD and DGC, 0.1 %"][3])
        self.assertEqual(self.rows["LGC"][3],
                         "64 and 128 times in coded rounds; 8.0 in all, with the autoencoder; -25.0 points")

    def test_a_verdict_is_of_the_figures(self):
        # Figures of which a claim is just true, and of which it is not.
        cases = {
            "3LC, s = 1": [(0.81, 0.81, 39), (0.81, 0.85, 38.6)],
            "3LC without zero runs": [(1.602,), (1.7,)],
            "3LC, s = 1.75 and 1.9": [(0.3, 107, 0, 0.2, 160, 0), (0.3, 107, 0, 0.2, 159, 0),
                                      (0.3, 106, 0, 0.2, 160, 0)],
            "QSGD, s = sqrt(n)": [(2.8, 2.3), (2.81, 2.3), (2.3, 2.81)],
            "QSGD: variance": [(1, 300, 317), (1.1, 300, 317), (0.2, 318, 317)],
            "QSGD, s = 1": [(101, 10000, 3712, -9), (102, 10000, 3712, 0)],
            "QSGD, 4 bit, buckets of 512": [(-0.3,), (-0.31,)],
            "QSVRG": [(0.1, 0.2, 0.9, 0.5, 1), (0.1, 0.2, 0.91, 0.5, 1), (0.1, 0.2, 0.3, 0.5, 1.01)],
            "INCEPTIONN, as published": [(3, 4, 5), (3, 5, 4), (3, 3, 4)],
            "INCEPTIONN, error bounded": [(3, 4, 5), (3, 5, 4), (3, 3, 4)],
            "INCEPTIONN in training": [(1, -0.3, 1, 0, 1, -9), (1, -0.4, 1, 0, 1, 0), (1, 0, 1, -0.4, 1, 0)],
            "LGC": [(8095, 17000, 6, -0.4), (8094, 17000, 6, 0), (8095, 16999, 6, 0), (8095, 17000, 6, -0.5)],
            "Sparse GD and DGC, 0.1 %": [(1000, -1.2, 1000, 0), (999, 0, 1000, 0), (1000, 0, 999, 0),
                                         (1000, -1.4, 1000, 0), (1000, 0, 1000, -0.2)],
        }
        self.assertEqual(list(cases), [claim.scheme for claim in papers.CLAIMS if claim.holds is not None])
        for claim in papers.CLAIMS:
            for place, figures in enumerate(cases.get(claim.scheme, [])):
                self.assertEqual(papers.verdict(claim, figures), "does not hold" if place else "holds",
                                 (claim.scheme, figures))

    def test_the_table_has_these_verdicts(self):
        self.assertEqual(self.rows["3LC, s = 1"][4], "does not hold")
        self.assertEqual(self.rows["QSGD, s = sqrt(n)"][4], "holds")
        self.assertEqual(self.rows["QSVRG"][4], "holds")
        self.assertEqual(self.rows["LGC"][4], "does not hold")
        self.assertEqual(self.rows["INCEPTIONN's ring"][4], "-")

    def test_without_lgc_its_row_says_what_to_run(self):
        without = papers.Measured(str(CODEC), self.measured.values, list(self.measured.rows.values()),
                                  self.measured.convex)
        row = {row[0]: row for row in papers.table(without)}["LGC"]
        self.assertEqual(row[3:5], ("not measured: run `./tern bench lgc` first", "-"))

    def test_qsgd_keeps_its_bounds(self):
        coded = self.measured.coded(papers.spec_qsgd(200)) # the root of COUNT
        self.assertLess(coded["bits_per_value"], 2.8 + 32 / COUNT)
        self.assertLess(coded["relative_error"], 1)
        self.assertGreater(coded["relative_error"], 0.05) # it is a variance, not an exact copy
        alone = self.measured.coded(papers.spec_qsgd(1))
        self.assertLess(alone["density"] * COUNT, 1.1 * (1 + 200))
        self.assertLess(alone["relative_error"], 1.1 * 200)

    def test_every_run_is_some_claims(self):
        asked = set()

        class Asking(papers.Measured):
            def bits(self, label, direction="up"):
                asked.add(label)
                return super().bits(label, direction)

            def points(self, label):
                asked.add(label)
                return super().points(label)

        list(papers.table(Asking(str(CODEC), self.measured.values, list(self.measured.rows.values()),
                                 self.measured.convex, self.measured.lgc)))
        self.assertEqual(asked | {"float32"}, set(labels()))

    def test_the_document_has_every_claim(self):
        table = documented("The papers' claims")
        self.assertEqual([row[:3] for row in table], [list(row[:3]) for row in self.rows.values()])
        for row, claim in zip(table, papers.CLAIMS, strict=True):
            self.assertEqual(row[5], claim.remark)
            figures = None
            if claim.figures is None:
                self.assertEqual(row[3], claim.template)
            else:
                figures = figures_in(claim.template, row[3])
                self.assertIsNotNone(figures, row[3])
            self.assertEqual(row[4], papers.verdict(claim, figures), row[0])

    def test_documented_figures_stand_where_rows_say(self):
        ring, hardware = self.rows["INCEPTIONN's ring"][3], self.rows["INCEPTIONN in hardware"][3]
        self.assertIn(re.search(r"[0-9]+ to [0-9]+ %", ring)[0], section("BENCHMARKS.md", "A ring of peers"))
        of = {cells[0]: cells for line in section("HARDWARE.md", "Figures").splitlines() if line.startswith("| `")
              for cells in [[cell.strip() for cell in line.strip("| ").split("|")]]}
        cycle, encode, decode = re.search(r"([0-9.]+) values .* ([0-9]+) MHz to encode, ([0-9]+) MHz",
                                          hardware).groups()
        self.assertIn("| 9.39 | %s |" % cycle, section("HARDWARE.md", "Figures"))
        self.assertEqual([of["`tern_inceptionn_%s`" % block][10] for block in ("encode", "decode")], [encode, decode])


if __name__ == "__main__":
    unittest.main()
