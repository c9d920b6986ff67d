"""A fleet of unequal devices: the aggregator measures the speeds that the settings draw, absences and
late joiners come as planned, budgets are kept, and the global model is measured."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / "end_to_end"), str(TESTS / "reference")]
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run  # noqa: E402
from tern_reference import draws  # noqa: E402

CLIENTS, ROUNDS = 6, 12
DATA = "data.source=digits:train=600,test=100,size=16,seed=1"


# Whoever is there reports long before it, also where eight other tests run: who does not, is late, and no outcome is certain.
DEADLINE_S = 6


def federation(workspace, rounds=ROUNDS, cohort=CLIENTS, quorum=1, deadline=f"{DEADLINE_S}s",
               codec="3lc:s=1", **train):
    return Aggregator(workspace, {
        "federation": {"model": "softmax:256-10", "seed": 5},
        "round": {"cohort": cohort, "quorum": quorum, "min_clients": CLIENTS - 1, "rounds": rounds,
                  "deadline": deadline, "come_back_min": "10ms", "come_back_max": "50ms"},
        "train": {"local_steps": 4, "batch_size": 16, "learning_rate": 0.1} | train,
        "codec": {"codec": codec},
    }).start()


def fleet(aggregator, *settings):
    results = aggregator.workspace.path / "results.json"
    options = [part for setting in settings for part in ("--set", setting)]
    run(BIN / "tern-fleet", "run", "--results", results,
        "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
        "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
        "--set", f"fleet.clients={CLIENTS}", "--set", DATA,
        "--set", f"round.rounds={ROUNDS}", *options)
    return json.loads(results.read_text())


def refused_because(sentence, *command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=PATIENCE)
    check(done.returncode != 0 and sentence in done.stderr, done.stderr)


def participated(result):
    """Rounds in which each client's update counted."""
    rounds = {client: [] for client in range(1, CLIENTS + 1)}
    for version, client in zip(result["record_version"], result["record_client"]):
        rounds[client].append(version)
    return rounds


def speeds():
    with Workspace() as workspace:
        aggregator = federation(workspace, quorum=CLIENTS, deadline="30s")
        result = fleet(aggregator, "fleet.speed=0.2", "fleet.speed_spread=20", "fleet.evaluate_every=5")
        spent = {}
        for client, steps, ms in zip(result["record_client"], result["record_steps"],
                                     result["record_device_ms"]):
            spent.setdefault(client, []).append(1000 * steps / ms)
        check(len(spent) == CLIENTS, f"{spent}")
        means = [sum(values) / len(values) for values in spent.values()]
        check(all(max(values) < 1.02 * min(values) for values in spent.values()), f"{spent}")
        check(0.19 < min(means) and max(means) < 4.1 and max(means) > 2 * min(means), f"{means}")
        check(result["seconds"] < 120, "time of slow devices was waited for")  # 240 s
        reported = [client["steps_per_second"] for client in aggregator.json("clients")
                    if not client["evaluator"]]
        check(all(min(abs(speed / mean - 1) for mean in means) < 0.1 for speed in reported),
              f"the aggregator measured {reported}, not {means}")
        measured = [i + 1 for i, accuracy in enumerate(result["accuracy"]) if accuracy is not None]
        check(measured == [5, 10, 12], f"versions with an accuracy: {measured}")
        check(result["final_accuracy"] == result["accuracy"][-1], "the last version counts")
        global_model(aggregator, result)


def stuck():
    """Budgets are spent before the last round: the run ends with what there is."""
    with Workspace() as workspace:
        aggregator = federation(workspace, deadline="500ms")
        result = fleet(aggregator, "fleet.budget=12000", "fleet.patience=8s")
        rounds = len(result["accuracy"])
        check(0 < rounds < ROUNDS, f"{rounds} rounds of {ROUNDS}")
        check(result["model_hash"] == "", "a hash that nobody told")
        check(all(count > 0 for count in result["record_payload_up"]), "updates were counted")
        measure_global_model(aggregator, result)


def lateness():
    """Steps that take longer than the window: those devices' updates never count."""
    with Workspace() as workspace:
        aggregator = federation(workspace, rounds=4)
        result = fleet(aggregator, f"fleet.speed={1 / DEADLINE_S}", "fleet.speed_spread=1000", "fleet.seed=6",
                       "round.rounds=4")
        rounds = participated(result)
        in_time = [client for client, done in rounds.items() if done]
        check(0 < len(in_time) < CLIENTS, f"rounds by client: {rounds}")
        check(max(result["record_device_ms"]) <= 1000 * DEADLINE_S, f"{result['record_device_ms']}")
        check(all(done in ([], [1, 2, 3, 4]) for done in rounds.values()), f"{rounds}")


def measure_global_model(aggregator, result):
    folder = aggregator.workspace.path
    aggregator.kill(signal.SIGTERM)
    aggregator.verb("export", "--global", folder / "model.f32")
    run(BIN / "tern-fleet", "evaluate", "--set", DATA, folder / "results.json",
        folder / "model.f32")
    measured = json.loads((folder / "results.json").read_text())
    check(0.2 < measured.pop("global_accuracy") <= 1 and measured.pop("global_loss") > 0, "global")
    for key in ("macro_f1", "class_accuracy", "class_precision", "class_f1", "confusion",
                "client_accuracy", "client_examples"):
        measured.pop(key)
    check(measured == result, "the rest of the results stays as it was")


def global_model(aggregator, result):
    measure_global_model(aggregator, result)
    folder = aggregator.workspace.path
    damaged = bytearray((folder / "model.f32").read_bytes())
    damaged[5] ^= 1
    (folder / "model.f32").write_bytes(damaged)
    refused_because("is not the model with which the run ended", BIN / "tern-fleet", "evaluate",
                    "--set", DATA, folder / "results.json", folder / "model.f32")


def arrivals_beside_the_global_model(aggregator):
    """lab/arrived.py adds what the global model of each arrival's version reaches."""
    results = aggregator.workspace.path / "results.json"
    aggregator.kill(signal.SIGTERM)
    run("python3", "-B", pathlib.Path(os.environ["TERN_SOURCE_DIR"]) / "lab/arrived.py", results,
        BIN / "tern-aggregator", "--config", aggregator.config, "--", BIN / "tern-fleet", "--set", DATA)
    found = json.loads(results.read_text())
    check(len(found["arrival_global_accuracy"]) == len(found["arrival_client"]), f"{found['arrival_global_accuracy']}")
    check(all(0.1 < accuracy <= 1 for accuracy in found["arrival_global_accuracy"]), f"{found['arrival_global_accuracy']}")


def absences():
    with Workspace() as workspace:
        aggregator = federation(workspace, codec="int8")
        result = fleet(aggregator, "fleet.away=2:4-6", "fleet.join=1:3")
        rounds = participated(result)
        # Rounds do not count on who missed some, and invite one of those beside their members: whoever is last then is late.
        away = {4, 5, 6}
        for number in set(range(1, ROUNDS + 1)) - away:
            check(result["record_version"].count(number) >= CLIENTS - 1, f"round {number}: {rounds}")
        for client in (3, 4, 5, 6):
            check(away <= set(rounds[client]), f"client {client}: {rounds[client]}")
        check(not away & set(rounds[2]) and {1, 2} <= set(rounds[2]), f"client 2: {rounds[2]}")
        back = min((number for number in rounds[2] if number > 3), default=ROUNDS + 1)
        check(not {1, 2, 3} & set(rounds[1]), f"client 1: {rounds[1]}")
        arrivals = dict(zip(result["arrival_client"], zip(
            result["arrival_version"], result["arrival_missed"], result["arrival_payload_down"],
            result["arrival_accuracy"])))
        check(sorted(arrivals) == [1, 2], f"{arrivals}")
        version, missed, payload, accuracy = arrivals[2]
        # It may be late for the round that it comes back in, beside whose members it was invited.
        check(6 <= version < back and missed == version - 2 and payload > 0, f"back in round {back}: {arrivals[2]}")
        check(abs(accuracy - result["accuracy"][version - 1]) < 0.2, f"back: {arrivals[2]}")
        check(arrivals[1][0] == arrivals[1][1] >= 3, f"joined: {arrivals[1]}")
        chain = sum(result["round_trunk_down"][version - missed:version])
        check(0 < payload < 1.5 * chain, f"{payload} beside the chain's {chain}")
        arrivals_beside_the_global_model(aggregator)


def missing():
    outcomes = []
    for _ in range(2):
        with Workspace() as workspace:
            aggregator = federation(workspace, rounds=5)
            result = fleet(aggregator, "fleet.absent=0.3", "fleet.seed=2", "round.rounds=5")
            outcomes.append((result["record_version"], result["record_client"],
                             result["model_hash"]))
    check(outcomes[0] == outcomes[1], f"not the same absences: {outcomes}")
    check(10 < len(outcomes[0][0]) < 30, f"{len(outcomes[0][0])} updates of 30")


def missing_more_than_a_quorum():
    """Everybody is wanted, so a round that somebody misses is given more time, in which they come."""
    with Workspace() as workspace:
        aggregator = federation(workspace, rounds=4, quorum=CLIENTS)
        result = fleet(aggregator, "fleet.absent=0.3", "fleet.seed=2", "round.rounds=4")
        rounds = participated(result)
        # The first round does not wait for the last one to enrol.
        check(all(done[-3:] == [2, 3, 4] for done in rounds.values()), f"{rounds}")
        log = (workspace.path / "aggregator.log").read_text()
        check("round-extended" in log, "nobody was missing")


def diverging():
    """One whose training fails leaves its worker to the others, and three of them end the run."""
    with Workspace() as workspace:
        aggregator = federation(workspace, deadline="30s", local_steps=100, learning_rate=100,
                                weight_decay=1)
        done = subprocess.run(
            [str(part) for part in (
                BIN / "tern-fleet", "run", "--results", workspace.path / "results.json",
                "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
                "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
                "--set", f"fleet.clients={CLIENTS}", "--set", DATA, "--set", "fleet.workers=1")],
            capture_output=True, text=True, timeout=PATIENCE)
        failed = re.findall("event=failure client=(\\S+) .*training failed", done.stderr)
        check(len(set(failed)) >= 3, f"only {failed} came to train")
        check(done.returncode != 0 and re.search(r"training diverges: \d updates in a row", done.stderr),
              f"exit code {done.returncode}: {done.stderr}")


FLEET, DRAW_BUDGET = 64, 1  # tern_prng's purpose, and the number of a device's draw
LEAST, MOST = 1300, 5000  # bytes that a round takes here, and with what is kept free for it


def drawn_budget(device, least, spread, seed):
    """What the settings give a device (fleet/device.c), by the reference's random numbers."""
    draw = draws.block(seed, FLEET, device, 0, 0)[DRAW_BUDGET]
    return int(least * spread ** draws.uniform(draw))


def budgets():
    with Workspace() as workspace:
        least, spread, seed = 9000, 10, 4
        aggregator = federation(workspace)
        result = fleet(aggregator, f"fleet.budget={least}", f"fleet.budget_spread={spread}",
                       f"fleet.seed={seed}")
        budget = {device: drawn_budget(device, least, spread, seed)
                  for device in range(1, CLIENTS + 1)}
        rounds = {client: len(done) for client, done in participated(result).items()}
        spent = dict.fromkeys(budget, 0)
        for client, up, down in zip(result["record_client"], result["record_wire_up"],
                                    result["record_wire_down"]):
            spent[client] += up + down
        # The aggregator counts what belongs to no round as well: enrolling, asking for work.
        device = {row["id"]: int(row["name"].removeprefix("fleet-"))
                  for row in aggregator.json("clients") if not row["evaluator"]}
        counted = {device[row["client"]]: row["wire_up"] + row["wire_down"]
                   for row in aggregator.json("report", "bytes", "--by", "client")["rows"]
                   if row["client"] in device}
        for client, most in budget.items():
            numbers = f"client {client}: {rounds} rounds, {counted} of {budget} bytes"
            check(spent[client] <= counted[client] <= most, numbers)
            check(most > ROUNDS * LEAST or counted[client] > most - MOST, numbers)
        check(min(rounds.values()) < ROUNDS == max(rounds.values()), f"rounds by client: {rounds}")
        check(result["rounds"] == ROUNDS, "the fleet ends although some have spent their bytes")


def test():
    for part in (speeds, lateness, absences, missing, missing_more_than_a_quorum, diverging, budgets, stuck):
        part()
    refused_because("fleet.away", BIN / "tern-fleet", "run", "--set", DATA, "--set",
                    "fleet.server=https://127.0.0.1:1", "--set", "fleet.join_code=x", "--set",
                    "fleet.away=7:60")


main(test)
