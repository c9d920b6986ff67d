"""What four papers claim of their schemes, and what Tern measures of the same quantity.

    papers.py TERN_CODEC STATE_DB RUNS.json QSVRG.json --count N --rate R [--lgc LGC.json] [--json OUT]

STATE_DB is of a run with float32 updates after every step at the rate R: the largest tensor of its newest update,
of N values, over R is the gradient that codecs are tried on. RUNS.json is of configs/experiments/papers.ini, QSVRG.json of
`./tern bench qsvrg`, LGC.json of `./tern bench lgc`. Prints a table in markdown, with one row for each claim:
what the paper says and where, what is measured here, whether the claim holds of that, and remarks. Where this command
measures nothing, the row names the figure that the documents have, and the place.
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
import typing

from real_updates import container_of, payloads_of

WHOLE = 1 << 28  # a bucket of all values
SEEDS = 0.3      # points of accuracy by which two seeds differ


class Measured:
    """Measurements that the claims are compared with: a gradient's encodings, bits and accuracies of runs, figures of
    convex tasks by name, and the results of lgc.py or None."""

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
        """Returns a figure of QSVRG for each convex task."""
        return [value for key, value in self.convex.items() if key.endswith("_" + name)]

    def points(self, label):
        return 100 * (self.rows[label]["global_accuracy"] - self.rows["float32"]["global_accuracy"])


def spec_3lc(s, coder="zero-run"):
    return "3lc:s=%g,coder=%s" % (s, coder)


def spec_qsgd(levels):
    return "qsgd:levels=%d,bucket=%d,norm=l2,coder=elias" % (levels, WHOLE)


# Figures: the values that a claim's template names, in its order.


def traffic_of_3lc(m):
    up, down = m.bits("3lc s=1"), m.bits("3lc s=1", "down")
    return up, down, 64 / (up + down)


def traffic_of_larger_s(m):
    return [figure for label in ("3lc s=1.75 up", "3lc s=1.9 up")
            for figure in (m.bits(label), 32 / m.bits(label), m.points(label))]


def sizes_of_qsgd(m):
    return m.coded(spec_qsgd(math.isqrt(m.count)))["bits_per_value"], m.bits("qsgd s=sqrt(n) up")


def variance_of_qsgd(m):
    levels = math.isqrt(m.count)
    return (m.coded(spec_qsgd(levels))["relative_error"], m.coded(spec_qsgd(1))["relative_error"],
            math.sqrt(m.count))


def sparsity_of_qsgd(m):
    coded = m.coded(spec_qsgd(1))
    return coded["density"] * m.count, m.count, 8 * coded["bytes"], m.points("qsgd s=1 up")


def qsvrg_on_tables(m):
    shares = [counted / bound for counted, bound in zip(m.of_tables("bits_counted"), m.of_tables("bits_bound"))]
    rates = m.of_tables("mean_rate")
    return min(rates), max(rates), max(m.of_tables("worst_rate")), min(shares), max(shares)


def points_of(label):
    return lambda m: (m.points(label),)


def inceptionn_of(variant):
    return lambda m: [m.coded("inceptionn:bound=%d,variant=%s" % (bound, variant))["ratio"] for bound in (10, 8, 6)]


def training_with_inceptionn(m):
    return [figure for label in ("inceptionn literal, 2^-10 up", "inceptionn bounded, 2^-10 up",
                                 "inceptionn bounded, 2^-6 up")
            for figure in (m.bits(label), m.points(label))]


def sparse_baselines(m):
    return [figure for label in ("sparse 0.1 % up", "dgc 0.1 % up")
            for figure in (32 / m.bits(label), m.points(label))]


def lgc_with_a_server(m):
    if m.lgc is None:
        return None
    task = m.lgc["large"]
    row = task["lgc, server"]
    coded = row["phases"]["coded"]
    return (32 / coded["leader_bits_up"], 32 / coded["follower_bits_up"],
            32 / (row["bits_up"] + row["bits_autoencoder"]),
            100 * (row["accuracy"] - task["float32"]["accuracy"]))


def documented(text):
    """Returns a text for a figure that this command does not measure: it names figure and place."""
    return {"template": text, "figures": None, "holds": None}


RATIOS = "%.1f, %.1f, %.1f times of a gradient"


class Claim(typing.NamedTuple):
    scheme: str
    where: str   # the paper says it
    says: str
    template: str  # of the figures
    figures: typing.Callable  # of Measured; None: the template is all there is
    holds: typing.Callable  # whether the paper's claim is true of these figures; None: they are not comparable
    remark: str
    missing: str = "not measured"  # in place of figures that are None


CLAIMS = [
    Claim("3LC, s = 1", "table 2", "0.81 bits a value both ways: 39 times less traffic",
          "%.2f up, %.2f down; %.0f times", traffic_of_3lc, lambda up, down, times: times >= 39,
          "a CNN: \"The 3LC paper's tables in shape\" below"),
    Claim("3LC without zero runs", "section 4.5", "1.6 bits a value", "%.3f up",
          lambda m: (m.bits("3lc s=1, no zero runs"),), lambda up: abs(up - 1.6) < 0.05,
          "8 bits for 5 values"),
    Claim("3LC, s = 1.75 and 1.9", "abstract, section 4.5", "0.3 bits, 107 times; 0.2 bits, 160 times",
          "%.2f up, %.0f times, %+.1f points; %.2f up, %.0f times, %+.1f points", traffic_of_larger_s,
          lambda up, times, points, up2, times2, points2: times >= 107 and times2 >= 160,
          "a tenth of the paper's steps; a larger s sends full tensors for longer"),
    Claim("QSGD, s = sqrt(n)", "corollary 3.3", "at most 2.8 bits a value, and 32",
          "%.2f of a gradient, %.2f in training", sizes_of_qsgd,
          lambda gradient, training: max(gradient, training) <= 2.8,
          "without the 32 bits of the whole vector"),
    Claim("QSGD: variance", "lemma 3.1", "at most min(n / s^2, sqrt(n) / s) of the squares: 1 with s = sqrt(n)",
          "%.2f; with s = 1 %.0f, the bound is %.0f", variance_of_qsgd,
          lambda error, coarse, bound: error <= 1 and coarse <= bound, "one draw; the lemma is about the mean"),
    Claim("QSGD, s = 1", "lemma 3.1, sparse regime", "at most 1 + sqrt(n) values that are not 0",
          "%.0f of %d values, %.0f bits; %+.1f points", sparsity_of_qsgd,
          lambda sent, count, bits, points: sent <= 1 + math.sqrt(count),
          "one draw; the lemma is about the mean"),
    Claim("QSGD, 4 bit, buckets of 512", "table 1",
          "accuracy of float32 (+0.55 AlexNet, -0.26 ResNet-152 with 8 bit)", "%+.2f points",
          points_of("qsgd 4 bit, buckets of 512 up"), lambda points: points >= -SEEDS, "within what seeds differ by"),
    Claim("QSVRG", "QSGD, theorem 3.6",
          "0.9 of the distance left after each epoch, at most (32 + 2.8 n)(T + 1) + 32 n bits",
          "%.2f to %.2f, at worst %.2f; %.2f to %.2f of the bits", qsvrg_on_tables,
          lambda least, most, worst, fewest, share: worst <= 0.9 and share <= 1,
          "exact gradients would leave 0.16; details in the next section"),
    Claim("INCEPTIONN, as published", "section VIII", "ratios grow with the bound", RATIOS,
          inceptionn_of("literal"), lambda fine, middle, coarse: fine < middle < coarse,
          "bounds of 2^-10, 2^-8, 2^-6"),
    Claim("INCEPTIONN, error bounded", "section V, with the bound kept", "the same", RATIOS,
          inceptionn_of("bounded"), lambda fine, middle, coarse: fine < middle < coarse,
          "8 bits mean other values, so that the bound holds (FORMAT.md, 3.7)"),
    Claim("INCEPTIONN in training", "section VIII", "2^-10 keeps the accuracy of float32",
          "literal 2^-10 %.2f bits, %+.1f points; bounded 2^-10 %.2f bits, %+.1f points; "
          "bounded 2^-6 %.2f bits, %+.1f points", training_with_inceptionn,
          lambda bits, literal, bits2, bounded, bits3, coarse: min(literal, bounded) >= -SEEDS,
          "without an error buffer values below the bound are lost; here they are gradients times the rate (0.1 and "
          "less), so the bound is ten times as coarse and more"),
    Claim("INCEPTIONN's ring", "abstract, section IV", "70.9 to 80.7 % less time for communication",
          **documented("modelled: 94 to 98 % less (BENCHMARKS.md, \"A ring of peers\")"),
          remark="a ring with hardware against an aggregator without; only the exchange takes time ([RING.md](RING.md))"),
    Claim("INCEPTIONN in hardware", "section VI", "8 values each cycle at 100 MHz, 10 GbE",
          **documented("7.98 values a cycle in simulation; placed and routed for an ECP5, 116 MHz to encode, 71 MHz to "
                       "decode ([HARDWARE.md](HARDWARE.md#figures), \"Figures\")"),
          remark="another chip than the paper's; no chip has run it"),
    Claim("LGC", "table VI",
          "8,095 times fewer bytes for the leader, 17,000 for the others, -0.18 points (ResNet-101)",
          "%.0f and %.0f times in coded rounds; %.1f in all, with the autoencoder; %+.1f points", lgc_with_a_server,
          lambda leader, others, whole, points: leader >= 8095 and others >= 17000 and points >= -0.18 - SEEDS,
          "100 steps, 5.3 million values; [what the paper's ratio can count](LGC.md#where-8095-times-holds)",
          "not measured: run `./tern bench lgc` first"),
    Claim("Sparse GD and DGC, 0.1 %", "LGC, table VI", "1,000 times, -1.00 and +0.12 points (ResNet-101)",
          "Sparse GD %.0f times, %+.1f points; dgc %.0f times, %+.1f points", sparse_baselines,
          lambda times, points, times2, points2: (min(times, times2) >= 1000 and points >= -1.00 - SEEDS
                                                  and points2 >= 0.12 - SEEDS),
          "with indices and the first 60 rounds of dgc, which send more; a tenth of the steps"),
]


def verdict(claim, figures):
    """Returns whether the claim holds for the figures; "-": not comparable."""
    if claim.holds is None or figures is None:
        return "-"
    return "holds" if claim.holds(*figures) else "does not hold"


def table(measured):
    """Returns rows: scheme, section, claim, figures as text, verdict, remark."""
    for claim in CLAIMS:
        figures = claim.figures(measured) if claim.figures is not None else None
        if claim.figures is None:
            here = claim.template
        else:
            here = claim.template % tuple(figures) if figures is not None else claim.missing
        yield claim.scheme, claim.where, claim.says, here, verdict(claim, figures), claim.remark


def markdown(rows):
    yield "| scheme | where | the paper | here | the claim | remarks |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in rows:
        yield "| %s |" % " | ".join(row)


def newest_update(state):
    base = sqlite3.connect("file:%s?mode=ro" % state, uri=True)
    row = base.execute("SELECT body FROM updates JOIN update_bodies USING (id)"
                       " ORDER BY round DESC, client LIMIT 1").fetchone()
    base.close()
    if row is None:
        sys.exit("papers: %s has no update" % state)
    return row[0]


def write_gradient(program, state, count, rate, folder):
    """Writes the values of the update's largest tensor, divided by the rate."""
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
        rows = list(table(Measured(options.program, values, runs, convex, lgc)))
    print("\n".join(markdown(rows)))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({row[0]: row[3] for row in rows}, file, indent=1)


if __name__ == "__main__":
    main()
