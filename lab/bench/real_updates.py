"""Codes the updates of a federation that ran with 3lc again, with every ternary coder.

    real_updates.py TERN_CODEC STATE_DB [--every N] [--json OUT]

Reads the stored updates, decodes each payload by tern-codec, and encodes the values with
3lc:s=1,coder=C: what is decoded is -m, 0 or m, so the quantizer finds the same symbols again and
only the coder differs. Prints bits per value of each coder beside the order-0 entropy, per round.
"""
import argparse
import collections
import json
import math
import os
import sqlite3
import struct
import subprocess
import tempfile

CODERS = ["packed", "zero-run", "gaps", "range"]
CONTAINER_TAG = 15 << 3 | 2


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def container_of(update):
    """Returns the container of an Update message."""
    at = 0
    while at < len(update):
        tag, at = varint(update, at)
        if tag & 7 == 2:
            length, at = varint(update, at)
            if tag == CONTAINER_TAG:
                return update[at:at + length]
            at += length
        elif tag & 7 == 0:
            _, at = varint(update, at)
        else:
            at += 8 if tag & 7 == 1 else 4
    raise ValueError("an update without a container")


def payloads_of(container):
    at = 0
    while at < len(container):
        length, at = varint(container, at)
        yield container[at:at + length]
        at += length


class Codec:
    """Runs tern-codec on files in a folder of its own."""

    def __init__(self, program, folder):
        self.program = program
        self.values, self.payload = (os.path.join(folder, name) for name in ("values", "payload"))

    def run(self, *arguments):
        subprocess.run([self.program, *arguments], check=True, stdout=subprocess.DEVNULL)

    def decode(self, payload, count):
        with open(self.payload, "wb") as file:
            file.write(payload)
        self.run("decode", self.payload, self.values, "--count", str(count))
        with open(self.values, "rb") as file:
            return struct.unpack("<%df" % count, file.read())

    def size(self, coder):
        """Returns the bytes of the last decoded values under another coder."""
        self.run("encode", "3lc:s=1,coder=" + coder, self.values, self.payload)
        return os.path.getsize(self.payload)


def entropy_bits(values):
    """Returns the order-0 entropy of one payload's symbols, in bits for the whole payload."""
    counts = collections.Counter((value > 0) - (value < 0) for value in values)
    return -sum(n * math.log2(n / len(values)) for n in counts.values())


def measure(codec, updates, counts):
    bits = collections.Counter()
    nonzero = 0
    for update in updates:
        for payload, count in zip(payloads_of(container_of(update)), counts, strict=True):
            values = codec.decode(payload, count)
            nonzero += count - values.count(0.0)
            bits["entropy"] += entropy_bits(values)
            for coder in CODERS:
                bits[coder] += 8 * codec.size(coder)
    total = len(updates) * sum(counts)
    return {"updates": len(updates), "density": nonzero / total,
            **{name: value / total for name, value in bits.items()}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("state")
    parser.add_argument("--counts", required=True, help="values of each segment: 100352,1280,138")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--json")
    options = parser.parse_args()
    counts = [int(word) for word in options.counts.split(",")]
    rows = []
    names = CODERS + ["entropy"]
    print("bits per value\nround  density " + " ".join("%11s" % name for name in names)
          + "  range/zero-run")
    with tempfile.TemporaryDirectory() as folder:
        codec = Codec(options.program, folder)
        base = sqlite3.connect("file:%s?mode=ro" % options.state, uri=True)
        last = base.execute("SELECT max(round) FROM updates").fetchone()[0]
        for number in sorted({1, *range(options.every, last + 1, options.every)}):
            updates = [row[0] for row in base.execute(
                "SELECT body FROM updates JOIN update_bodies USING (id) WHERE round = ?",
                (number,))]
            row = {"round": number, **measure(codec, updates, counts)}
            row["range_to_zero_run"] = row["range"] / row["zero-run"]
            rows.append(row)
            print("%5d  %7.4f " % (number, row["density"])
                  + " ".join("%11.4f" % row[name] for name in names)
                  + "  %14.3f" % row["range_to_zero_run"], flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
