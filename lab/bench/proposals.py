"""Rounds and rates that `tern-aggregator init --data` proposes, on generated tables of different sites, compared with the
same model trained on the rows of all sites at once:

  /usr/bin/python3 -B lab/bench/proposals.py build/bin [TABLE...] [SECTION.KEY=VALUE...]

A setting replaces what init proposes, in the federation. Prints a line for each table and seed: rounds, KB of a client, the
global model's figure on a fifth of the rows, and the pooled model's. docs/BENCHMARKS.md, "Rounds and rates of init", has the result."""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATES = numpy.array(["good", "worn", "leak", "block", "hot", "dry", "wet", "bent", "old", "new"])
SEEDS = (1, 2, 3)


# --- Tables: features of different scale, the site of each row, and the label


def classes(draw, site, features, share, spread):
    """Each class is two clusters in a curved space of four dimensions; sites are offset."""
    labels = draw.choice(len(share), len(site), p=numpy.array(share) / sum(share))
    centres = draw.normal(0, 1.5, (len(share), 2, 4))
    flat, bent = draw.normal(0, 1, (2, 4, features))
    place = centres[labels, draw.integers(0, 2, len(site))] + draw.normal(0, 0.75 * spread, (len(site), 4))
    rows = place @ flat + 2 * numpy.tanh(place) @ bent + draw.normal(0, 0.7, (len(site), features))
    return rows + draw.normal(0, 0.4, (4, features))[site], STATES[labels]


def flow(draw, site, features):
    """A number that depends on the features nonlinearly; feature means differ by site."""
    rows = draw.normal(0, 1.2, (4, features))[site] + draw.normal(0, 1, (len(site), features))
    bends = numpy.sin(rows @ draw.normal(0, 1, (features, 6)) / numpy.sqrt(features) * 1.2) @ draw.normal(0, 1.5, 6)
    number = bends + rows @ draw.normal(0, 0.5, features) + 0.4 * rows[:, 0] * rows[:, 1]
    return rows, 400 + 37 * (number + draw.normal(0, 0.25 * number.std(), len(site)))


def heavy_flow(draw, site, features):
    """Features and a target, with a few outliers."""
    place = draw.normal(0, 1, (len(site), 3))
    rows = numpy.exp(place @ draw.normal(0, 0.7, (3, features)) + draw.normal(0, 0.3, (len(site), features)))
    rows *= numpy.exp(draw.normal(0, 0.4, (4, features)))[site]
    return rows, 50 * numpy.exp(1.2 * place[:, 0] + numpy.sin(2 * place[:, 1]) / 2 + draw.normal(0, 0.2, len(site)))


def anomalies(draw, site, features):
    """Rows of a curved space of three dimensions; one in twenty has faults."""
    place = draw.normal(0, 1, (len(site), 3))
    flat, bent = draw.normal(0, 1, (2, 3, features))
    rows = place @ flat + 0.7 * (place ** 2 - 1) @ bent + draw.normal(0, 0.35, (len(site), features))
    bad = draw.random(len(site)) < 0.05
    rows[bad] += draw.normal(0, 0.9, (bad.sum(), features))
    return rows + draw.normal(0, 0.2, (4, features))[site], numpy.where(bad, "bad", "ok")


def subjects(draw, site, features):
    """Subjects with a number that rises slowly in time and depends on the subject; voices say little about it."""
    people = site.max() + 1
    age, sex = draw.normal(65, 9, people), draw.integers(0, 2, people)
    base = 21 + 0.25 * (age - 65) + 2 * sex + draw.normal(0, 7.5, people)
    slope = draw.normal(0.012, 0.02, people)
    day = draw.uniform(0, 200, len(site))
    place = draw.normal(0, 1, (people, 4))[site] + draw.normal(0, 0.7, (len(site), 4))
    voices = place @ draw.normal(0, 0.6, (4, features)) + draw.normal(0, 0.25, (len(site), features))
    voices[:, :features * 2 // 3] = numpy.exp(voices[:, :features * 2 // 3])  # jitter and shimmer
    number = base[site] + slope[site] * day + 1.2 * numpy.tanh(place[:, 0]) + draw.normal(0, 0.5, len(site))
    return numpy.column_stack([age[site], sex[site], day, voices]), number


def line(draw, site, features):
    """One column determines most of the target; the influence of the others differs by site."""
    rows = draw.normal(0, 1, (len(site), features))
    more = rows[:, 1:] @ (draw.normal(0, 0.15, (4, features - 1))).T
    return rows, 8 + 2 * rows[:, 0] + more[numpy.arange(len(site)), site] + draw.normal(0, 0.3, len(site))


def bursts(draw, site, features):
    """Counts with rare bursts of up to a hundred deviations."""
    rows = draw.standard_t(3, (len(site), features)) * numpy.exp(draw.normal(0, 0.3, (4, features)))[site]
    return rows, rows[:, 0] + numpy.abs(rows[:, 1]) * rows[:, 2] + draw.standard_t(2.5, len(site)) * 0.3


TABLES = {
    "five classes, one rare": (5400, lambda *a: classes(*a, 8, [40, 30, 20, 8.5, 1.5], 1.0), ()),
    "three classes, few rows": (300, lambda *a: classes(*a, 6, [5, 3, 2], 1.0), ()),
    "ten classes": (20000, lambda *a: classes(*a, 24, [1] * 10, 1.2), ()),
    "number": (3000, lambda *a: flow(*a, 12), ()),
    "number, few rows": (400, lambda *a: flow(*a, 6), ()),
    "number, many rows": (20000, lambda *a: flow(*a, 16), ()),
    "number, heavy tails": (3000, lambda *a: heavy_flow(*a, 10), ()),
    "anomalies": (4000, lambda *a: anomalies(*a, 12), ("--task", "anomaly")),
    "anomalies, few rows": (600, lambda *a: anomalies(*a, 8), ("--task", "anomaly")),
    "anomalies, many columns": (20000, lambda *a: anomalies(*a, 40), ("--task", "anomaly")),
    "number, heavy tails both ways": (4000, lambda *a: bursts(*a, 8), ()),
    "number, many columns": (2000, lambda *a: flow(*a, 80), ()),
    "number, one strong column": (1500, lambda *a: line(*a, 10), ()),
    "number, 42 subjects": (5880, lambda *a: subjects(*a, 16), (), 42),
}


def write(path, number, rows, make, people):
    draw = numpy.random.default_rng(number)
    site = numpy.arange(rows) % people if people else draw.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    values, labels = make(draw, site)
    values = values * 10 ** draw.uniform(-2, 4, values.shape[1])
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow([f"x{i}" for i in range(values.shape[1])] + ["site", "label"])
        out.writerows([f"{value:.5g}" for value in row] + [f"s{where}", label]
                      for row, where, label in zip(values, site, labels))


# --- A federation and a pooled model with the proposed settings


def experiment(folder, made, settings, clients, seed, changes):
    """Returns the figures of a federation of `clients` clients; one client has all rows: the pooled model."""
    source = made["data"]["source"].replace("csv:sample.csv", f"csv:{folder}/sample.csv")
    source = source.replace("scale=scaling.csv", f"scale={folder}/scaling.csv")
    path, result = folder / "run.ini", folder / "run.json"
    fleet = {"round.cohort": clients, "round.quorum": clients, "round.min_clients": clients, "round.come_back_min": "10ms",
             "round.come_back_max": "50ms", "fleet.clients": clients, "fleet.evaluate_every": 50, "federation.seed": seed,
             "data.source": source, "data.partition": "natural" if clients > 1 else "iid"}
    lines = {}
    for key, value in (settings | fleet | (changes if clients > 1 else {})).items():
        section, name = key.split(".", 1)
        lines.setdefault(section, []).append(f"{name} = {value}")
    path.write_text("\n".join(f"[{section}]\n" + "\n".join(keys) for section, keys in lines.items()) + "\n", "utf-8")
    subprocess.run([ROOT / "tern", "experiment", path, "--json", result], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)
    found = json.loads(result.read_text("utf-8"))
    kilobytes = (found["wire_up"] + found["wire_down"]) * found["rounds"] / 1000
    names = {"macro_f1": "macro F1", "global_r2": "R2", "global_auc": "AUC", "global_accuracy": "accuracy"}
    return kilobytes, {title: found[name] for name, title in names.items() if isinstance(found.get(name), float)}


def proposal(folder, programs, options):
    """Returns the proposal of init, and its settings."""
    done = subprocess.run([programs / "tern-aggregator", "init", "--data", "sample.csv", "--label", "label", "--group", "site",
                           *options, "--json"], cwd=folder, check=True, capture_output=True, text=True)
    settings, section = {}, ""
    for line in (folder / "aggregator.ini").read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif " = " in line and not line.startswith(";") and section != "federation":
            key, value = line.split(" = ", 1)
            settings[f"{section}.{key}"] = value
    made = json.loads(done.stdout)
    return made, settings | {"federation.model": made["model"], "train.evaluate": "no"}


def main(programs, *arguments):
    only = [argument for argument in arguments if "=" not in argument]
    changes = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    for number, (name, (rows, make, options, *people)) in enumerate(TABLES.items(), 1):
        if only and name not in only:
            continue
        for seed in SEEDS:
            with tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                write(folder / "sample.csv", number, rows, make, *people or [0])
                made, settings = proposal(folder, pathlib.Path(programs).resolve(), options)
                kilobytes, figures = experiment(folder, made, settings, *people or [4], seed, changes)
                _, pooled = experiment(folder, made, settings, 1, seed, changes)
            shown = ", ".join(f"{title} {value:.3f} (pooled {pooled[title]:.3f})" for title, value in figures.items())
            print(f"{name}: {settings['round.rounds']} rounds, {kilobytes:.0f} KB, seed {seed}: {shown}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
