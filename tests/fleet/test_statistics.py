"""A fleet whose columns are scaled by statistics that its clients share learns a raw table, the same model each
time, and its global model is measured by the same scaling. One that scales its table itself, too, is refused.
"""
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402

CLIENTS, ROUNDS = 4, 12


def write_table(path):
    rng = random.Random(7)
    with open(path, "w", encoding="utf-8") as out:
        print("rpm,leak,state", file=out)
        for _ in range(800):
            state = rng.randrange(2)
            print(f"{rng.gauss(2950 - 20 * state, 8):.1f},{rng.gauss(0.01 + 0.004 * state, 0.001):.5f},{state}", file=out)


def learn(workspace):
    table = workspace.path / "raw.csv"
    results = workspace.path / "results.json"
    write_table(table)
    aggregator = Aggregator(workspace, {
        "federation": {"model": "mlp:2-8-2", "seed": 5},
        "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "rounds": ROUNDS, "deadline": "1m",
                  "come_back_min": "10ms", "come_back_max": "50ms"},
        "train": {"local_steps": 10, "batch_size": 16, "learning_rate": 0.1},
        "statistics": {"columns": "clients"},
    }).start()
    options = ("--set", f"data.source=csv:{table},label=state", "--set", f"fleet.clients={CLIENTS}",
               "--set", "data.partition=dirichlet", "--set", "data.alpha=0.5")
    run(BIN / "tern-fleet", "run", "--results", results, "--set", f"fleet.server={aggregator.url}",
        "--set", f"fleet.ca={aggregator.ca}", "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
        "--set", f"round.rounds={ROUNDS}", *options)
    aggregator.verb("export", "--global", workspace.path / "model.f32")
    run(BIN / "tern-fleet", "evaluate", results, workspace.path / "model.f32", *options)
    return json.loads(results.read_text())


def is_not_scaled_twice(workspace):
    table = workspace.path / "raw.csv"
    write_table(table)
    aggregator = Aggregator(workspace, {
        "federation": {"model": "mlp:2-8-2"}, "round": {"cohort": 2, "min_clients": 2, "rounds": 2},
        "statistics": {"columns": "clients"}}).start()
    done = subprocess.run(
        [BIN / "tern-fleet", "run", "--results", workspace.path / "results.json", "--set", f"fleet.server={aggregator.url}",
         "--set", f"fleet.ca={aggregator.ca}", "--set", f"fleet.join_code={aggregator.join_code(uses=3)}", "--set",
         "round.rounds=2", "--set", f"data.source=csv:{table},label=state,scale=standard", "--set", "fleet.clients=2"],
        capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode != 0 and "remove scale=... from data.source" in done.stderr, f"the fleet says: {done.stderr}")


def test():
    with Workspace() as workspace:
        is_not_scaled_twice(workspace)
    found = []
    for _ in range(2):
        with Workspace() as workspace:
            found.append(learn(workspace))
    first, second = found
    check(first["final_accuracy"] > 0.9, f"it does not learn: {first}")
    check(first["global_accuracy"] > 0.9, f"the global model is measured on other columns: {first}")
    check(first["model_hash"] == second["model_hash"], "two runs made two models")
    check(first["scaling"] == second["scaling"] and len(first["scaling"]) == 2 * 2 * 8, f"{first['scaling']}")


main(test)
