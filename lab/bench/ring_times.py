"""Modelled time of one exchange of gradients, round a ring and with one aggregator: ring_times.py [--json].

The usual model of collectives, as in section VIII of INCEPTIONN (Li et al., MICRO 2018): a message of b bytes takes
ALPHA + b * beta, where beta is a link's time for a byte; every machine has one link of that speed each way, to a switch
that does not hold it up. n values in float32 are 4n bytes, compressed ones ratio times as many; p is the number of workers.

  aggregator  up:    ALPHA + p * up * 4n * beta   p updates come in on the one link of the aggregator,
              sum:   p * 4n * decode              which decodes and adds them, one after the other,
              down:  ALPHA + p * down * 4n * beta and go out on it; encoded once, decoded by each
  ring        2(p-1) steps, each ALPHA + ring * 4n/p * beta for a block; on the reduce leg a block is encoded
              and one decoded and added, on the gather leg one is encoded at first and each decoded

What is worked out at a member while a block is on its way is not overlapped, as tern-ring does not either. Time of
training, TLS, of saving and of waiting for the slowest is not in it. Ratios and speeds are measured: docs/BENCHMARKS.md says how.
"""
import json
import sys

ALPHA = 50e-6  # s: a round trip of a switched network, with what the operating system takes
LINKS = {"1 Gbit/s": 8 / 1e9, "10 Gbit/s": 8 / 10e9}  # s per byte
VALUES = 25_000_000  # 100 MB in float32, about ResNet-50
WORKERS = (4, 8, 16)

# s per byte of float32: one core with AVX2 (docs/BENCHMARKS.md, "Codec"), and for what hardware in the path of the link
# does at its speed, none.
ADD = 1 / 5.4e9  # accumulate of float32
SOFTWARE = {"encode": 1 / 0.70e9, "decode": 1 / 0.97e9}
HARDWARE = {"encode": 0.0, "decode": 0.0}

# Bytes per byte of float32, of inceptionn:bound=10: of gradients as they are (what an aggregator gets), and of the
# partial sums and sums that go round (mean of all blocks).
RATIO_GRADIENT = 0.289
RATIO_RING = 0.310


def aggregator(p, n, beta, up, down, codec):
    size = 4 * n
    summed = codec["decode"] if up < 1 else ADD
    encoded = codec["encode"] * size if up < 1 else 0
    answered = (codec["encode"] + codec["decode"]) * size if down < 1 else 0
    return encoded + 2 * ALPHA + p * (up + down) * size * beta + p * size * summed + answered


def ring(p, n, beta, ratio, codec):
    block = 4 * n / p
    link = 2 * (p - 1) * (ALPHA + ratio * block * beta)
    if ratio == 1:
        return link + (p - 1) * block * ADD
    # p encodings, p - 1 additions, p decodings: the owner decodes its own block, too.
    return link + block * (p * codec["encode"] + (2 * p - 1) * codec["decode"])


def ways(p, n, beta):
    return {
        "aggregator": aggregator(p, n, beta, 1, 1, SOFTWARE),
        "aggregator, up compressed": aggregator(p, n, beta, RATIO_GRADIENT, 1, SOFTWARE),
        "aggregator, up compressed by hardware": aggregator(p, n, beta, RATIO_GRADIENT, 1, HARDWARE),
        "aggregator, both compressed": aggregator(p, n, beta, RATIO_GRADIENT, RATIO_GRADIENT, SOFTWARE),
        "ring": ring(p, n, beta, 1, SOFTWARE),
        "ring, compressed": ring(p, n, beta, RATIO_RING, SOFTWARE),
        "ring, compressed by hardware": ring(p, n, beta, RATIO_RING, HARDWARE),
    }


def figures():
    return {link: {p: ways(p, VALUES, beta) for p in WORKERS} for link, beta in LINKS.items()}


def table(found):
    columns = [(link, p) for link in found for p in found[link]]
    lines = ["| ms for an exchange | " + " | ".join(f"{link}, p={p}" for link, p in columns) + " |",
             "| --- |" + " ---: |" * len(columns)]
    for way in found[columns[0][0]][columns[0][1]]:
        lines.append(f"| {way} | " + " | ".join(f"{1000 * found[link][p][way]:,.0f}" for link, p in columns) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(figures()) if sys.argv[1:] == ["--json"] else table(figures()))
