"""Figures on the clients' own held-out data: where the federation asks for it, clients evaluate the model that they
are given before they train it and tell with their update what they found. Reports have each client's figures, the
means weighted by examples and unweighted, their spread and the worst client. Nobody who does not ask pays."""

import csv
import json
import random
import statistics
import subprocess

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

FEATURES, CLASSES = 6, 3
SIZES = (50, 100, 400)  # rows of the clients' files, of which each holds out a fifth

def write_table(path, seed, count, noise):
    draw = random.Random(seed)
    with open(path, "w", newline="") as out:
        table = csv.writer(out)
        table.writerow([f"x{i}" for i in range(FEATURES)] + ["state"])
        for _ in range(count):
            state = draw.randrange(CLASSES)
            table.writerow([f"{state - 1 + noise * draw.gauss(0, 1):.3f}" for _ in range(FEATURES)] + [state])

def client(workspace, aggregator, number, *arguments, evaluator=False):
    config = workspace.path / f"{number}.ini"
    if not config.exists():
        table = workspace.path / f"{number}.csv"
        write_table(table, f"client {number}", SIZES[number], 0.5 + 2 * (number == 1))
        config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\nname = {number}\n"
            f"state_dir = {workspace.path}/{number}\nwait = 2s\nretry_min = 100ms\n"
            f"[data]\nsource = csv:{table},label=state\n")
    return [BIN / "tern-client", *arguments, "--config", config]

def run_federation(workspace, evaluate):
    aggregator = Aggregator(workspace, {
        "federation": {"model": f"softmax:{FEATURES}-{CLASSES}"},
        "round": {"min_interval": "1ms", "min_clients": len(SIZES), "cohort": len(SIZES),
                  "quorum": len(SIZES), "rounds": 3},
        "train": {"local_steps": 5, "evaluate": evaluate},
        "downloads": {"final_model": "none"}}).start()
    code = aggregator.join_code(uses=len(SIZES))
    for number in range(len(SIZES)):
        subprocess.run(client(workspace, aggregator, number, "enroll", code), check=True,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE)
    running = [workspace.start(*client(workspace, aggregator, number, "run"), log=f"client-{number}")
               for number in range(len(SIZES))]
    for process in running:
        check(process.wait(timeout=PATIENCE) == 0, "a client did not end with the federation")
    return aggregator

def near(found, expected):
    return abs(found - expected) < 1e-6

def figures_are_those_of_the_clients(report):
    rows, held_out = report["rows"], [round(size * 0.2) for size in SIZES]
    check(report["held_out_version"] == 2 and report["held_out_clients"] == 3, f"{report}")
    for name, worst in (("accuracy", min), ("f1_macro", min), ("loss", max)):
        values = [row[name] for row in rows]
        key = f"held_out_{name}"
        weighted = sum(value * size for value, size in zip(values, held_out)) / sum(held_out)
        check(near(report[key], weighted), f"{key} is {report[key]}, not {weighted}")
        check(near(report[f"{key}_mean"], statistics.fmean(values)), f"mean of {values}: {report}")
        check(near(report[f"{key}_deviation"], statistics.pstdev(values)), f"deviation: {report}")
        check(near(report[f"{key}_worst"], worst(values)), f"worst of {values}: {report}")
        check(report[f"{key}_worst_client"] == rows[values.index(worst(values))]["client"], f"{report}")
        check(len(set(values)) > 1, f"clients have the same {name}: {values}")

def rounds_have_them(aggregator, report):
    rounds = aggregator.json("rounds")
    check([row["held_out_clients"] for row in rounds] == [3, 3, 3], f"{rounds}")
    check(rounds[0]["held_out_loss"] > rounds[2]["held_out_loss"], "nothing was learnt")
    check(rounds[2]["held_out_accuracy"] == report["held_out_accuracy"], "the last round is another")
    check(rounds[2]["held_out_model"] in ("replica", "global"), f"{rounds[2]}")
    check("held_out_accuracy_worst_client" in aggregator.verb("rounds", "--csv").splitlines()[0], "csv")

def text_has_them(aggregator):
    text = aggregator.verb("report", "fairness")
    check("Held-out data of 3 clients: metrics of the " in text and "of version 2, before training" in text, text)
    check(max(map(len, text.splitlines())) <= 80, text)
    head = aggregator.verb("report", "fairness", "--csv").splitlines()[0]
    check(head == "client,invited,reported,accuracy,loss,f1_macro,largest", head)

def bytes_beside_the_tensors(aggregator):
    """Returns the mean bytes of an update beside its container, whose content differs, as does the training time."""
    payload = aggregator.json("report", "bytes")["total"]["payload_up"]
    return (aggregator.json("status")["update_bytes"] - payload) / (3 * len(SIZES))

def test():
    with Workspace() as workspace:
        aggregator = run_federation(workspace, "yes")
        report = aggregator.json("report", "fairness")
        figures_are_those_of_the_clients(report)
        rounds_have_them(aggregator, report)
        text_has_them(aggregator)
        told = bytes_beside_the_tensors(aggregator)
    with Workspace() as workspace:
        aggregator = run_federation(workspace, "no")
        report = aggregator.json("report", "fairness")
        check("held_out_version" not in report and "accuracy" not in report["rows"][0], f"{report}")
        check("held_out" not in aggregator.verb("rounds", "--csv"), "figures that nobody asked for")
        cost = told - bytes_beside_the_tensors(aggregator)
        check(45 <= cost <= 100, f"an update with its figures is {cost:.0f} bytes longer")

main(test)
