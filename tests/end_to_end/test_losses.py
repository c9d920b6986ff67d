"""Federations that tell a number, and that find anomalies: three clients and an evaluator over TLS, each with a
table of its own. The error falls to near the noise that was put into the target, in the units of the target; anomalies
have larger errors than what is normal. Every verb says what it should of models without classes."""

import json
import random
import subprocess

import safetensors_file
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run

CLIENTS = 3
NOISE = 5.0  # deviation of what nothing in the table tells of the flow
BROKEN = 60  # anomalies in the evaluator's table


def write_scaling(path, columns):
    with open(path, "w", encoding="utf-8") as out:
        print("column,mean,deviation", file=out)
        for name, mean, deviation in columns:
            print(f"{name},{mean},{deviation}", file=out)


def write_flow(path, seed, rows):
    """A pump's readings in their units, and a flow that is no line of them."""
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as out:
        print("rpm,pressure,temperature,flow", file=out)
        for _ in range(rows):
            x, y, z = (draw.gauss(0, 1) for _ in range(3))
            flow = 500 + 40 * x - 25 * y + 15 * x * y + 10 * abs(z) + draw.gauss(0, NOISE)
            print(f"{2950 + 60 * x:.3f},{3e5 + 3e4 * y:.1f},{40 + 8 * z:.3f},{flow:.3f}", file=out)


def write_machine(path, seed, rows, broken=0):
    """Eight sensors that two quantities move; in a row that is broken one shows what it shows at another time."""
    draw = random.Random(seed)
    loads = random.Random("loads")
    loads = [(loads.gauss(0, 1), loads.gauss(0, 1)) for _ in range(8)]

    def readings():
        x, y = draw.gauss(0, 1), draw.gauss(0, 1)
        return [a * x + b * y + 0.1 * draw.gauss(0, 1) for a, b in loads]

    with open(path, "w", encoding="utf-8") as out:
        print(",".join(f"s{i}" for i in range(8)) + ",state", file=out)
        for row in range(rows):
            values, state = readings(), "ok"
            if row < broken:
                state = draw.choice(("stuck", "drifted"))
                for i in draw.sample(range(8), 2):
                    values[i] += draw.choice((-3, 3))
            print(",".join(f"{value:.4f}" for value in values) + f",{state}", file=out)


def run_federation(workspace, model, source, write, settings):
    """The tables are CLIENTS that train, and one more for the evaluator. Ends with the federation."""
    aggregator = Aggregator(workspace, {
        "federation": {"model": model},
        "round": {"min_clients": CLIENTS, "cohort": CLIENTS, "quorum": CLIENTS, "rounds": 50},
        "train": {"local_steps": 20, "learning_rate": "cosine:rate=0.05,final=0.005",
                  "evaluate": "yes"}, **settings}).start()
    code = aggregator.join_code(uses=CLIENTS + 1)
    running = []
    for number in range(CLIENTS + 1):
        table = workspace.path / f"{number}.csv"
        write(table, number, number == CLIENTS)
        config = workspace.path / f"{number}.ini"
        config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\nstate_dir = {workspace.path}/{number}\n"
            f"evaluator = {'yes' if number == CLIENTS else 'no'}\nretry_min = 100ms\n"
            f"[data]\nsource = csv:{table},{source}\n")
        run(BIN / "tern-client", "enroll", code, "--config", config)
        running.append(workspace.start(BIN / "tern-client", "run", "--config", config, log=f"client-{number}"))
    for process in running:
        check(process.wait(timeout=PATIENCE) == 0, "a client did not end with the federation")
    return aggregator


def predict(workspace, number, *arguments):
    return json.loads(run(BIN / "tern-client", "predict", *arguments, "--config", workspace.path / f"{number}.ini",
                          "--json"))


def warnings_of_predict(workspace, new):
    done = subprocess.run([BIN / "tern-client", "predict", new, "--config", workspace.path / "0.ini"], capture_output=True,
                          text=True, timeout=PATIENCE, check=True)
    return done.stderr


def check_client(workspace, number, model, ok=0):
    done = subprocess.run([BIN / "tern-client", "check", "--offline", "--model", model, "--config",
                           workspace.path / f"{number}.ini"], capture_output=True, text=True, timeout=PATIENCE,
                          check=False)
    check(done.returncode == ok, f"check --model {model}: {done.stdout}{done.stderr}")
    return done.stdout


def exported(workspace, aggregator):
    """What the file of the best version says of itself, and why that version is the best."""
    path = workspace.path / "best.safetensors"
    done = subprocess.run([BIN / "tern-aggregator", "export", path, "--best", "--config", aggregator.config],
                          capture_output=True, text=True, timeout=PATIENCE, check=True)
    return safetensors_file.parse(path.read_bytes())[1], done.stderr, path


def regression():
    model = "mlp:3-32-1,loss=mse"
    with Workspace() as workspace:
        scaling = workspace.path / "scaling.csv"
        write_scaling(scaling, (("rpm", 2950, 60), ("pressure", 3e5, 3e4), ("temperature", 40, 8), ("flow", 508, 50)))
        aggregator = run_federation(workspace, model, f"target=flow,scale={scaling}",
                                    lambda path, number, _: write_flow(path, number, 500), {})
        status = aggregator.json("status")
        figures = status["metrics"]
        check(status["accuracy"] is None and set(figures) == {"mae", "mse", "r2"}, f"{status}")
        check(NOISE**2 * 0.6 < figures["mse"] < NOISE**2 * 2, f"not near the noise: {figures}")
        check(figures["r2"] > 0.97 and figures["mae"] < 1.5 * NOISE, f"{figures}")
        text = aggregator.verb("status")
        check("Evaluated   mae" in text and "Accuracy" not in text, text)
        lines = aggregator.verb("rounds").splitlines()
        check("R2" in lines[0] and "ACCURACY" not in lines[0], lines[0])
        fairness = aggregator.json("report", "fairness")
        check(fairness["held_out_mse_worst"] >= fairness["held_out_mse"] > 0, f"{fairness}")
        notes, why, path = exported(workspace, aggregator)
        check(notes["model"] == model and "by its replica's loss on held-out data" in why, f"{notes} {why}")
        told = predict(workspace, 0, workspace.path / f"{CLIENTS}.csv")
        check(len(told["rows"]) == 500 and told["r2"] > 0.97, f"{told}")
        first = (workspace.path / f"{CLIENTS}.csv").read_text().splitlines()[1].split(",")
        check(abs(told["rows"][0]["target"] - float(first[3])) < 0.01, f"{told['rows'][0]}, {first}")
        check(abs(told["rows"][0]["value"] - float(first[3])) < 6 * NOISE, f"{told['rows'][0]}, {first}")
        check("fits the data" in check_client(workspace, 0, model), "check")
        check("target=" in check_client(workspace, 0, "mlp:3-32-4", ok=1), "a model of classes")
        new = workspace.path / "new.csv"
        new.write_text("rpm,pressure,temperature\n2950,300000,40\n")
        row = predict(workspace, 0, new)["rows"][0]
        check(set(row) == {"value"} and abs(row["value"] - 500) < 15, f"{row}")
        new.write_text("rpm,pressure,temperature\n2950,,40\n")
        check("1 value in 1 column is missing, the first in line 2" in warnings_of_predict(workspace, new), "a gap")
        (workspace.path / "0.csv").rename(workspace.path / "elsewhere.csv")
        check("taken by position" in warnings_of_predict(workspace, new), "no names to compare with")
        made = json.loads(run(BIN / "tern-aggregator", "init", "--state", workspace.path / "again", "--model", path,
                              "--json"))
        check(made["model"].endswith(",loss=mse"), f"what was exported has lost its loss: {made}")


def anomalies():
    model = "mlp:8-16-2-16-8,loss=reconstruction"
    with Workspace() as workspace:
        aggregator = run_federation(
            workspace, model, "label=state,classes=ok|stuck|drifted",
            lambda path, number, last: write_machine(path, number, 500, BROKEN if last else 0), {})
        figures = aggregator.json("status")["metrics"]
        check(set(figures) == {"auc", "f1", "threshold", "flagged"} and figures["auc"] > 0.95, f"{figures}")
        check("AUC" in aggregator.verb("rounds").splitlines()[0], "rounds")
        notes, _, _ = exported(workspace, aggregator)
        check(notes["model"] == model, f"{notes}")
        # By the errors of the client's own training rows.
        told = predict(workspace, 0, workspace.path / f"{CLIENTS}.csv")
        found = [row["anomaly"] for row in told["rows"]]
        check(told["auc"] > 0.95 and told["f1"] > 0.8, f"{ {**told, 'rows': None} }")
        check(sum(found[:BROKEN]) > 0.8 * BROKEN and sum(found[BROKEN:]) < 0.05 * len(found), f"{sum(found)} found")
        check(all((row["error"] > told["threshold"]) == row["anomaly"] for row in told["rows"]), "threshold")


def stops(loss, learning_rate, expected, **round_settings):
    """Federations that diverge, or learn no more, end by themselves."""
    with Workspace() as workspace:
        scaling = workspace.path / "scaling.csv"
        write_scaling(scaling, (("rpm", 2950, 60), ("pressure", 3e5, 3e4), ("temperature", 40, 8), ("flow", 508, 50)))
        aggregator = run_federation(
            workspace, f"linear:3-1,loss={loss}", f"target=flow,scale={scaling}",
            lambda path, number, _: write_flow(path, number, 100),
            {"train": {"local_steps": 5, "learning_rate": learning_rate, "momentum": 0},
             "round": {"min_clients": CLIENTS, "cohort": CLIENTS, "quorum": CLIENTS, "rounds": 200, **round_settings}})
        log = (workspace.path / "aggregator.log").read_text()
        check(f"={expected}" in log, f"it did not end as {expected}: {log[-2000:]}")
        check(len(aggregator.json("rounds")) < 200, "it went on to the end")


def test():
    regression()
    anomalies()
    stops("mse", 1.1, "diverged", divergence_rounds=3)
    stops("mae", 0.05, "stalled", patience=5)


main(test)
