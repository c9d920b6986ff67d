"""QSVRG beside QSGD on strongly convex tasks (lab/convex), and what theorem 3.6 says of it.

    qsvrg.py plan FOLDER TABLE STRATEGY EPOCHS    writes FOLDER/TABLE.csv; prints the settings of the run
    qsvrg.py read FOLDER TABLE STRATEGY EPOCHS STATE_DB AGGREGATOR [OPTION]...
                                                  of a run that has ended: FOLDER/TABLE-STRATEGY.json
    qsvrg.py report FOLDER [--json OUT] [--svg OUT]
                                                  of all that were read: a table in markdown, figures, a picture

STRATEGY is qsvrg or fedavg, which with one local step is QSGD. An epoch has T - 1 rounds (docs/OPERATIONS.md):
the anchor of the next one is the version that its last round makes. QSGD is measured after as many rounds."""
import argparse
import glob
import json
import math
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from convex import bounds  # noqa: E402
from convex.tables import TABLES  # noqa: E402
from real_updates import container_of, payloads_of, varint  # noqa: E402

CODEC = "qsgd:levels=%d,bucket=268435456,norm=l2,coder=elias"
# Share of the first distance to the optimum. Rates use the epochs that end above this floor: below it, rounding of
# float32 weights limits the progress.
FLOOR = 1e-8


# --- Plan


def settings(table, objective, strategy, epochs, path):
    steps = bounds.steps_of(objective)
    made = {
        "federation.model": table.model,
        "data.source": table.source(path),
        "train.weight_decay": "%g" % table.penalty,
        "train.learning_rate": "%.9g" % bounds.rate_of(objective),
        "codec.codec": CODEC % math.isqrt(objective.count),
        "round.rounds": epochs * (steps - 1),
        # The averaged model of one strategy covers as many rounds as an epoch of the other.
        "round.strategy": "qsvrg:epoch_steps=%d" % steps if strategy == "qsvrg"
                          else "%s:average_versions=%d,norm_bound=0" % (strategy, steps - 1),
    }
    return made


def plan(options):
    table = TABLES[options.table]()
    path = os.path.join(os.path.abspath(options.folder), table.name + ".csv")
    table.write(path)
    for key, value in settings(table, table.objective(), options.strategy, options.epochs, path).items():
        print("%s=%s" % (key, value))


# --- Read


def weights_of(aggregator, *which):
    """Returns the weights of a global model. which: options of `tern-aggregator export`."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.f32")
        done = subprocess.run([aggregator[0], "export", *aggregator[1:], *which, path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit("%sqsvrg: the model could not be exported" % done.stdout)
        with open(path, "rb") as file:
            data = file.read()
    return struct.unpack("<%df" % (len(data) // 4), data)


FLOAT32, ELIAS = 0x01, 0x41  # modes of payloads (docs/FORMAT.md)


def counted_bits(container):
    """Returns the bits that the theorem counts: norms, Elias codes and floats, without lengths, modes and parameters."""
    bits = 0
    for payload in payloads_of(container):
        if payload[0] == FLOAT32:
            bits += 8 * (len(payload) - 1)
        elif payload[0] == ELIAS:
            _, at = varint(payload, 1)  # levels
            bucket, at = varint(payload, at)
            if bucket != 0:
                raise ValueError("a payload with several norms")
            _, codes = varint(payload, at + 4)  # behind the norm: how many values
            bits += bounds.FLOAT + 8 * (len(payload) - codes)
    return bits


def bits_by_epoch(updates, rounds, epochs):
    """updates: (round, client, container) of all. What the mean client sent in each epoch: all bits, and those that the
    theorem counts."""
    sent, counted, clients = [0] * epochs, [0] * epochs, set()
    for round_number, client, container in updates:
        epoch = (round_number - 1) // rounds
        sent[epoch] += 8 * len(container)
        counted[epoch] += counted_bits(container)
        clients.add(client)
    return [total / len(clients) for total in sent], [total / len(clients) for total in counted]


def stored_updates(state):
    base = sqlite3.connect("file:%s?mode=ro" % state, uri=True)
    rows = base.execute("SELECT round, client, body FROM updates JOIN update_bodies USING (id)")
    for round_number, client, body in rows:
        yield round_number, client, container_of(body)
    base.close()


def read(options):
    objective = TABLES[options.table]().objective()
    rounds = bounds.steps_of(objective) - 1
    least = objective.value(objective.optimum())
    distances = [objective.value(weights_of(options.aggregator, "--global", "--version", str(epoch * rounds))) - least
                 for epoch in range(options.epochs + 1)]
    sent, counted = bits_by_epoch(stored_updates(options.state), rounds, options.epochs)
    made = {"table": options.table, "strategy": options.strategy, "optimum": least, "distances": distances,
            "bits": sent, "counted_bits": counted}
    if options.strategy != "qsvrg":
        made["averaged"] = objective.value(weights_of(options.aggregator, "--averaged")) - least
    with open(os.path.join(options.folder, "%s-%s.json" % (options.table, options.strategy)), "w",
              encoding="utf-8") as file:
        json.dump(made, file, indent=1)


# --- Report


def rates(distances):
    """Returns for each epoch that ends above the floor the share of the distance that remains."""
    pairs = [(before, after) for before, after in zip(distances, distances[1:])
             if after > FLOOR * distances[0]]
    return [after / before for before, after in pairs]


def mean(values):
    return sum(values) / len(values)


def mean_rate(found):
    return math.exp(mean([math.log(rate) for rate in found]))


def figures(objective, runs):
    """Returns the figures. runs: results of read(), by strategy."""
    steps = bounds.steps_of(objective)
    found = rates(runs["qsvrg"]["distances"])
    flat = runs["fedavg"]["distances"]
    half = flat[len(flat) // 2:]
    return {
        "condition": objective.smoothness() / objective.convexity(),
        "step_size": bounds.rate_of(objective),
        "epoch_steps": steps,
        "first_distance": flat[0],
        "mean_rate": mean_rate(found),
        "worst_rate": max(found),
        "distance": runs["qsvrg"]["distances"][-1],
        "qsgd_floor": mean(half),
        "qsgd_averaged": runs["fedavg"]["averaged"],
        "bits_sent": mean(runs["qsvrg"]["bits"]),
        "bits_counted": mean(runs["qsvrg"]["counted_bits"]),
        "bits_bound": bounds.bits_of_epoch(objective.count, steps),
        "bits_of_qsgd": mean(runs["fedavg"]["bits"]),
    }


HEAD = ("table", "L / l", "step size", "T", "left after an epoch, mean (worst)", "f - f* at the start",
        "after %d epochs", "QSGD's floor", "of its versions' mean", "a client's bits in an epoch",
        "that the theorem counts", "the theorem's most")


def whole(value):
    return "{:,.0f}".format(value)


def markdown(made, epochs):
    head = [cell % epochs if "%d" in cell else cell for cell in HEAD]
    yield "| " + " | ".join(head) + " |"
    yield "| --- |" + " ---: |" * (len(head) - 1)
    for name, of in made.items():
        cells = [name, "%.1f" % of["condition"], "%.4f" % of["step_size"], "%d" % of["epoch_steps"],
                 "%.2f (%.2f)" % (of["mean_rate"], of["worst_rate"]), "%.2g" % of["first_distance"],
                 "%.1g" % of["distance"], "%.1g" % of["qsgd_floor"], "%.1g" % of["qsgd_averaged"],
                 whole(of["bits_sent"]),
                 "%s (%.2f)" % (whole(of["bits_counted"]), of["bits_counted"] / of["bits_bound"]),
                 whole(of["bits_bound"])]
        yield "| " + " | ".join(cells) + " |"


def load(folder):
    """What read() wrote of each table, in the tables' order: of those with both strategies."""
    runs = {}
    for path in glob.glob(os.path.join(folder, "*-*.json")):
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        runs.setdefault(run["table"], {})[run["strategy"]] = run
    return {name: runs[name] for name in TABLES if len(runs.get(name, {})) == 2}


def report(options):
    runs = load(options.folder)
    if not runs:
        sys.exit("qsvrg: %s has no table of which both strategies were read" % options.folder)
    made = {name: figures(TABLES[name]().objective(), of) for name, of in runs.items()}
    print("\n".join(markdown(made, max(len(of["qsvrg"]["bits"]) for of in runs.values()))))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"qsvrg_%s_%s" % (name, key): value for name, of in made.items()
                       for key, value in of.items()}, file, indent=1)
    if options.svg:
        from convex.picture import picture  # needs matplotlib
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(picture(runs))


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, act in (("plan", plan), ("read", read)):
        of = verbs.add_parser(verb)
        of.set_defaults(act=act)
        of.add_argument("folder")
        of.add_argument("table", choices=TABLES)
        of.add_argument("strategy", choices=("qsvrg", "fedavg"))
        of.add_argument("epochs", type=int)
    of.add_argument("state")
    of.add_argument("aggregator", nargs=argparse.REMAINDER)
    of = verbs.add_parser("report")
    of.set_defaults(act=report)
    of.add_argument("folder")
    for option in ("--json", "--svg"):
        of.add_argument(option)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
