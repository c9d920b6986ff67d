"""What LGC's autoencoder makes of the updates of a federation that ran with float32.

    autoencoder.py TERN_CODEC BENCH_AUTOENCODER STATE_DB --counts N,N,... [--segments K] [--json OUT]

Reads the stored updates of all clients, round by round, of the first K segments (LGC leaves the first and the last
layer of a model alone), and prints a table in markdown: by how many bits for each of the largest values, those that a
round sends, what share of their energy is lost on the later rounds, which were not trained on; and what is lost where
each of these values is sent by so many bits itself, without any autoencoder.
"""
import argparse
import json
import os
import sqlite3
import struct
import subprocess
import tempfile

from real_updates import Codec, container_of, payloads_of

TRAINED = 0.7  # of the rounds
STEPS = 300    # of training, as the paper has them
SERVER, OWN, RING = {"ring": 0}, {"ring": 0, "own": 1}, {"ring": 1}
PATTERNS = [("parameter server, one decoder", SERVER), ("parameter server, a decoder each", OWN), ("ring", RING)]
CASES = [(label, keys, width, share) for share in (0.001, 0.01) for label, keys in PATTERNS for width in (8, 64)] + [
    ("ring, SGD as in the paper", {**RING, "rate": 0.001, "momentum": 0, "clip": 0}, 8, 0.01),
    ("ring, ten times the steps", {**RING, "passes": 40}, 8, 0.01),
    ("ring, as many numbers as values", {**RING, "channels": 16}, 8, 0.01),
]


def clients_of(base):
    return [row[0] for row in base.execute("SELECT DISTINCT client FROM updates ORDER BY client")]


def record(base, codec, counts, segments, path):
    """Writes [rounds][nodes][values] of the rounds that all clients took part in; returns both numbers."""
    clients = clients_of(base)
    rounds = 0
    with open(path, "wb") as file:
        for number, in base.execute("SELECT round FROM updates GROUP BY round HAVING count(*) = ? ORDER BY round",
                                    (len(clients),)).fetchall():
            for body, in base.execute("SELECT body FROM updates JOIN update_bodies USING (id) WHERE round = ? "
                                      "ORDER BY client", (number,)):
                payloads = list(payloads_of(container_of(body)))
                for payload, count in list(zip(payloads, counts, strict=True))[:segments]:
                    file.write(struct.pack("<%df" % count, *codec.decode(payload, count)))
            rounds += 1
    return rounds, len(clients)


def run(program, path, keys):
    words = [word for key, value in keys.items()
             for word in (["%s=%g" % (key, value)] if not isinstance(value, list)
                          else ["%s=%d" % (key, one) for one in value])]
    done = subprocess.run([program, path, *words], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


# Lost shares of energy stand behind the bits that they go with.
HEAD = ["pattern", "share", "width", "bytes of the network", "bits, code in float32", "with the network", "lost",
        "bits, code in 4 bits", "lost", "innovations alone", "values in 1 bit", "in 4 bits"]
ROUNDS = 1000  # over which the network's bytes are spread: each node receives it once


def row_of(label, share, width, result):
    network = result["autoencoder_bytes" if label.startswith("ring") else "encoder_bytes"]
    spread = 8 * network / (ROUNDS * result["values"])
    cells = [label, "%g %%" % (100 * share), width, "{:,}".format(network), "%.2f" % result["code32_bits"],
             "%.2f" % (result["code32_bits"] + spread), "%.3f" % result["code32_lost"],
             "%.2f" % result["code4_bits"], "%.3f" % result["code4_lost"],
             "%.3f" % result["innovation0_lost"] if "innovation0_lost" in result else "",
             "%.4f" % result["values1_lost"], "%.4f" % result["values4_lost"]]
    return "| %s |" % " | ".join(map(str, cells))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("codec")
    parser.add_argument("bench")
    parser.add_argument("state")
    parser.add_argument("--counts", required=True, help="values of each segment: 18432,31360,394")
    parser.add_argument("--segments", type=int, default=2, help="so many of them, the first ones")
    parser.add_argument("--json")
    options = parser.parse_args()
    counts = [int(word) for word in options.counts.split(",")]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "changes")
        base = sqlite3.connect("file:%s?mode=ro" % options.state, uri=True)
        rounds, nodes = record(base, Codec(options.codec, folder), counts, options.segments, path)
        train = int(TRAINED * rounds)
        print("%d rounds of %d nodes, trained on the first %d" % (rounds, nodes, train))
        print("| %s |\n| --- | --- |%s" % (" | ".join(HEAD), " ---: |" * (len(HEAD) - 2)))
        for label, pattern, width, share in CASES:
            keys = {"segment": counts[:options.segments], "nodes": nodes, "share": share, "width": width,
                    "train": train, "passes": max(1, round(STEPS / train)), **pattern}
            result = run(options.bench, path, keys)
            results.append({"pattern": label, "share": share, "width": width, **result})
            print(row_of(label, share, width, result), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
