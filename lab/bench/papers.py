"""What four papers claim of their schemes, and what Tern measures of the same quantity.

    papers.py TERN_CODEC STATE_DB RUNS.json QSVRG.json --count N --rate R [--lgc LGC.json] [--json OUT]

STATE_DB is of a run with float32 updates after every step at the rate R: the largest tensor of its newest update,
of N values, over R is the gradient that codecs are tried on. RUNS.json is of configs/experiments/papers.ini, QSVRG.json of
`./tern bench qsvrg`, LGC.json of `./tern bench lgc`. Prints a table in markdown, with one row for each claim; the paper, its section,
and why the figures differ stand beside it.
"""
import argparse
import json
import math
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile

from real_updates import container_of, payloads_of

WHOLE = 1 << 28  # a bucket of all values


class Measured:
    """Of a gradient: what a codec makes of it. Of runs: bits and accuracy. Of convex tasks: figures by name. Of LGC: what
    lgc.py measured, or None."""

    def __init__(self, program, values, rows, convex, lgc=None):
        self.program, self.values, self.convex, self.lgc = program, values, convex, lgc
        self.count = os.path.getsize(values) // 4
        self.rows = {row["label"]: row for row in rows}

    def coded(self, spec):
        done = subprocess.run([self.program, "compare", self.values, "--codecs", spec, "--json"],
                              check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)["codecs"][-1]

    def bits(self, label, direction="up"):
        return self.rows[label]["bits_" + direction]

    def of_tables(self, name):
        """A figure of QSVRG, of each convex task."""
        return [value for key, value in self.convex.items() if key.endswith("_" + name)]

    def points(self, label):
        return 100 * (self.rows[label]["global_accuracy"] - self.rows["float32"]["global_accuracy"])


def spec_3lc(s, coder="zero-run"):
    return "3lc:s=%g,coder=%s" % (s, coder)


def spec_qsgd(levels):
    return "qsgd:levels=%d,bucket=%d,norm=l2,coder=elias" % (levels, WHOLE)


def traffic_of_3lc(m):
    up, down = m.bits("3lc s=1"), m.bits("3lc s=1", "down")
    return "%.2f up, %.2f down; %.0f times" % (up, down, 64 / (up + down))


def traffic_of_larger_s(m):
    return "; ".join("%.2f up, %.0f times, %+.1f points" % (
        m.bits(label), 32 / m.bits(label), m.points(label)) for label in ("3lc s=1.75 up", "3lc s=1.9 up"))


def sizes_of_qsgd(m):
    levels = math.isqrt(m.count)
    return "%.2f of a gradient, %.2f in training" % (
        m.coded(spec_qsgd(levels))["bits_per_value"], m.bits("qsgd s=sqrt(n) up"))


def variance_of_qsgd(m):
    levels = math.isqrt(m.count)
    return "%.2f; with s = 1 %.0f, the bound is %.0f" % (
        m.coded(spec_qsgd(levels))["relative_error"], m.coded(spec_qsgd(1))["relative_error"],
        math.sqrt(m.count))


def sparsity_of_qsgd(m):
    coded = m.coded(spec_qsgd(1))
    return "%.0f of %d values, %.0f bits; %+.1f points" % (
        coded["density"] * m.count, m.count, 8 * coded["bytes"], m.points("qsgd s=1 up"))


def qsvrg_on_tables(m):
    shares = [counted / bound for counted, bound in zip(m.of_tables("bits_counted"), m.of_tables("bits_bound"))]
    rates = m.of_tables("mean_rate")
    return "%.2f to %.2f, at worst %.2f; %.2f to %.2f of the bits" % (
        min(rates), max(rates), max(m.of_tables("worst_rate")), min(shares), max(shares))


def points_of(label):
    return lambda m: "%+.2f points" % m.points(label)


def inceptionn_of(variant):
    def measure(m):
        parts = []
        for bound in (10, 8, 6):
            coded = m.coded("inceptionn:bound=%d,variant=%s" % (bound, variant))
            parts.append("%.1f" % coded["ratio"])
        return ", ".join(parts) + " times of a gradient"
    return measure


def training_with_inceptionn(m):
    return "; ".join("%s %.2f bits, %+.1f points" % (name, m.bits(label), m.points(label)) for name, label in (
        ("literal 2^-10", "inceptionn literal, 2^-10 up"), ("bounded 2^-10", "inceptionn bounded, 2^-10 up"),
        ("bounded 2^-6", "inceptionn bounded, 2^-6 up")))


def sparse_baselines(m):
    return "; ".join("%s %.0f times, %+.1f points" % (name, 32 / m.bits(label), m.points(label)) for name, label in (
        ("Sparse GD", "sparse 0.1 % up"), ("dgc", "dgc 0.1 % up")))


def lgc_with_a_server(m):
    if m.lgc is None:
        return None
    task = m.lgc["large"]
    row = task["lgc, server"]
    coded = row["phases"]["coded"]
    return "%.0f and %.0f times in coded rounds; %.1f in all, with the autoencoder; %+.1f points" % (
        32 / coded["leader_bits_up"], 32 / coded["follower_bits_up"], 32 / (row["bits_up"] + row["bits_autoencoder"]),
        100 * (row["accuracy"] - task["float32"]["accuracy"]))


# Scheme, where the paper says it, what it says, in which measure; what measures it here; why they differ.
CLAIMS = [
    ("3LC, s = 1", "3LC, table 2", "0.81 bits a value both ways: 39 times less traffic", traffic_of_3lc,
     "it holds; of another model another share is 0: 0.59 and 0.61 in the tables below"),
    ("3LC without zero runs", "3LC, section 4.5", "1.6 bits a value",
     lambda m: "%.3f up" % m.bits("3lc s=1, no zero runs"), "the same: 8 bits for 5 values, and a scale"),
    ("3LC, s = 1.75 and 1.9", "3LC, abstract and section 4.5", "0.3 bits, 107 times; 0.2 bits, 160 times",
     traffic_of_larger_s, "a tenth of the paper's steps: a larger s needs more of them, and sends full tensors until then"),
    ("QSGD, s = sqrt(n)", "QSGD, corollary 3.3", "at most 2.8 bits a value, and 32", sizes_of_qsgd, "it holds"),
    ("QSGD: variance", "QSGD, lemma 3.1", "at most min(n / s^2, sqrt(n) / s) of the squares: 1 with s = sqrt(n)",
     variance_of_qsgd, "it holds"),
    ("QSGD, s = 1", "QSGD, lemma 3.1, sparse regime", "at most 1 + sqrt(n) values that are not 0", sparsity_of_qsgd,
     "it holds"),
    ("QSGD, 4 bit, buckets of 512", "QSGD, table 1", "accuracy of float32 (+0.55 AlexNet, -0.26 ResNet-152 with 8 bit)",
     points_of("qsgd 4 bit, buckets of 512 up"), "it holds"),
    ("QSVRG", "QSGD, theorem 3.6", "0.9 of the distance left after each epoch, at most (32 + 2.8 n)(T + 1) + 32 n bits",
     qsvrg_on_tables, "it holds: exact gradients would leave 0.16; a section below has tables, bits and QSGD beside it"),
    ("INCEPTIONN, as published", "INCEPTIONN, section VIII", "2^-10 keeps the accuracy; ratios grow with the bound",
     inceptionn_of("literal"), "it has no error buffer: what is below the bound is lost"),
    ("INCEPTIONN, error bounded", "its section V, with the bound kept", "the same",
     inceptionn_of("bounded"), "the same sizes; what 8 bits say differs, so that the bound holds (FORMAT.md, 3.7)"),
    ("INCEPTIONN in training", "INCEPTIONN, section VIII", "the accuracy of float32", training_with_inceptionn,
     "a gradient times the rate, 0.1 and less, is sent here, so that the bound is ten times as coarse and more"),
    ("INCEPTIONN's ring", "INCEPTIONN, abstract and section IV", "70.9 to 80.7 % less time for communication",
     None, "[RING.md](RING.md): bytes a node and time, measured and modelled, in the section on rings below"),
    ("INCEPTIONN in hardware", "INCEPTIONN, section VI", "8 values each cycle at 100 MHz, 10 GbE", None,
     "[HARDWARE.md](HARDWARE.md): cells and clock of ours"),
    ("LGC", "LGC, table VI", "8,095 times fewer bytes for the leader, 17,000 for the others, -0.18 points (ResNet-101)",
     lgc_with_a_server, "100 steps; of the large model below. The paper's ratio is without indices ([LGC.md](LGC.md))"),
    ("Sparse GD and DGC, 0.1 %", "LGC, table VI", "1,000 times, -1.00 and +0.12 points (ResNet-101)", sparse_baselines,
     "indices count here, and the first 60 rounds of dgc, which send more; a tenth of the steps"),
]


def table(measured):
    """Rows: scheme, section, claim, figure or None, why."""
    return [(scheme, where, claim, measure(measured) if measure is not None else None, why)
            for scheme, where, claim, measure, why in CLAIMS]


def markdown(rows):
    yield "| scheme | where | the paper | here | why they differ |"
    yield "| --- | --- | --- | --- | --- |"
    for scheme, where, claim, figure, why in rows:
        yield "| %s | %s | %s | %s | %s |" % (scheme, where, claim, figure or "not measured", why)


def newest_update(state):
    base = sqlite3.connect("file:%s?mode=ro" % state, uri=True)
    row = base.execute("SELECT body FROM updates JOIN update_bodies USING (id)"
                       " ORDER BY round DESC, client LIMIT 1").fetchone()
    base.close()
    if row is None:
        sys.exit("papers: %s has no update" % state)
    return row[0]


def write_gradient(program, state, count, rate, folder):
    """The values of the update's largest tensor, over the rate."""
    payload, values = os.path.join(folder, "payload"), os.path.join(folder, "values")
    with open(payload, "wb") as file:
        file.write(max(payloads_of(container_of(newest_update(state))), key=len))
    subprocess.run([program, "decode", payload, values, "--count", str(count)], check=True,
                   stdout=subprocess.DEVNULL)
    with open(values, "rb") as file:
        update = struct.unpack("<%df" % count, file.read())
    with open(values, "wb") as file:
        file.write(struct.pack("<%df" % count, *(value / rate for value in update)))
    return values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("state")
    parser.add_argument("runs")
    parser.add_argument("convex")
    parser.add_argument("--count", type=int, required=True, help="values of the largest tensor")
    parser.add_argument("--rate", type=float, required=True, help="learning rate of the run")
    parser.add_argument("--lgc", help="figures of lgc.py; without them its row is not measured")
    parser.add_argument("--json")
    options = parser.parse_args()
    lgc = None
    if options.lgc:
        with open(options.lgc, encoding="utf-8") as file:
            lgc = json.load(file)
    with open(options.runs, encoding="utf-8") as file:
        runs = json.load(file)["rows"]
    with open(options.convex, encoding="utf-8") as file:
        convex = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        values = write_gradient(options.program, options.state, options.count, options.rate, folder)
        rows = table(Measured(options.program, values, runs, convex, lgc))
    print("\n".join(markdown(rows)))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({row[0]: row[3] for row in rows}, file, indent=1)


if __name__ == "__main__":
    main()
