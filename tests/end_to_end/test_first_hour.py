"""The commands that init prints lead one client through rounds, as they stand but for the port: for a
model of the user's choice, and for a raw table of sensors, whose columns are found and scaled; for one whose label is a
number, and for one without a label, in which anomalies are to be found. What a client and status say while too few have
enrolled.
"""

import json
import os
import random
import re
import subprocess

from harness import BIN, Aggregator, Workspace, check, main, run

STATES = ("good", "worn", "dry")


def write_raw(path, rows=400):
    """A pump's readings as they come: a time, rpm near 2950, pressure in pascal, and the pump's state."""
    rng = random.Random(1)
    with open(path, "w", encoding="utf-8") as out:
        print("time,rpm,pressure,state", file=out)
        for i in range(rows):
            state = rng.randrange(3)
            print(f"{1700000000 + i},{rng.gauss(2950 - 20 * state, 8):.1f},"
                  f"{rng.gauss(300000 - 40000 * (state == 2), 9000):.0f},{STATES[state]}", file=out)


def write_flow(path, rows=400):
    """Writes a table of pumps with their flow as the target."""
    rng = random.Random(2)
    with open(path, "w", encoding="utf-8") as out:
        print("time,rpm,pressure,flow", file=out)
        for i in range(rows):
            x, y = rng.gauss(0, 1), rng.gauss(0, 1)
            print(f"{1700000000 + i},{2950 + 60 * x:.1f},{3e5 + 3e4 * y:.0f},{500 + 40 * x - 20 * y * y:.2f}", file=out)


def tells_numbers(folder):
    """By the values of the label's column the model is one that tells a number; --task says else."""
    write_flow(folder / "pump.csv")
    said = follow(folder, "--data", "pump.csv", "--label", "flow", "--set", "round.rounds=15")
    found = losses(said)
    check(len(found) == 15 and 0.3 < found[0] < 3 and found[-1] < 0.2, f"the flow is not learnt: {said}")
    check("PROBLEM" not in said and "target" in said, f"check fails: {said}")
    check(re.search("This client alone: r2 0.+\\nFederation: r2 0", said), f"both are compared: {said}")
    check("loss=mse" in (folder / "aggregator.ini").read_text(), "the model")
    check((folder / "scaling.csv").read_text().splitlines()[-1].startswith('"flow",'), "the target is not scaled")
    refused = subprocess.run([BIN.resolve() / "tern-aggregator", "init", "--state", "other", "--data", "pump.csv", "--label",
                              "flow", "--task", "classification"], cwd=folder, capture_output=True, text=True, timeout=60,
                             check=False)
    check(refused.returncode == 2 and "--task regression" in refused.stderr, f"{refused.stderr}")


def finds_anomalies(folder):
    write_flow(folder / "pump.csv")
    said = follow(folder, "--data", "pump.csv", "--task", "anomaly", "--set", "round.rounds=15")
    found = losses(said)
    check(len(found) == 15 and found[-1] < found[0], f"nothing is learnt: {said}")
    check("PROBLEM" not in said, f"check fails: {said}")
    check("label=none" in (folder / "client.ini").read_text(), "all columns are features")
    labelled = folder / "labelled"
    labelled.mkdir()
    (labelled / "states.csv").write_text("a,b,state\n" + "".join(
        f"{i % 7},{i % 5},{'good' if i % 4 else 'bad'}\n" for i in range(40)))
    made = subprocess.run([BIN.resolve() / "tern-aggregator", "init", "--data", "states.csv", "--task", "anomaly",
                           "--label", "state", "--json"], cwd=labelled, capture_output=True, text=True, timeout=60,
                          check=False)
    check(made.returncode == 0, made.stderr)
    made = json.loads(made.stdout)
    check(made["model"].endswith(",loss=reconstruction"), f"{made}")
    check("label=state,classes=good|*," in made["data"]["source"], f"normal is not the first class: {made}")


def commands(said):
    return [line.strip() for line in said.splitlines() if re.match(r" +(openssl|tern-\S+) ", line)]


def follow(folder, *init):
    """Runs init and the commands that it prints; what they say."""
    environment = dict(os.environ, PATH=f"{BIN.resolve()}:{os.environ['PATH']}")

    def shell(script):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment, text=True,
                              timeout=150, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                              stdin=subprocess.DEVNULL, check=False)
        check(done.returncode == 0, f"{script}\nexited {done.returncode}:\n{done.stdout}")
        return done.stdout

    one = ["--set", "round.min_clients=1"] if "--data" in init else []
    steps = commands(shell(" ".join(["tern-aggregator", "init", *init, *one])))
    check(len(steps) == (7 if "--data" in init else 6), f"init printed {steps}")
    openssl, serve, look, enroll, train, status, *compare = steps
    port = " --set client.server=https://localhost:$(cat port)"
    return shell(f"""{openssl} 2>openssl.log
{serve} --set server.port=0 --set server.port_file=port --set admin.address=unix:admin.sock 2>service.log &
until [ -s port ]; do kill -0 %1; sleep 0.02; done
{look + port}
{enroll + port}
{train + port}
tern-aggregator rounds --json --state tern-state
kill %1; wait %1
{status}
{"".join(compare)}""")


def waits(workspace):
    """One client, where rounds begin with two: both sides say so."""
    aggregator = Aggregator(workspace, {"federation": {"model": "softmax:256-10"}, "round": {"min_clients": 2}})
    aggregator.start()
    (workspace.path / "client.ini").write_text(
        f"[client]\nserver = https://localhost:{aggregator.port}\nca = {workspace.path}/ca.crt\n"
        f"state_dir = {workspace.path}/alone\n[data]\nsource = digits:train=50,test=10\n")
    config = ("--config", workspace.path / "client.ini")
    run(BIN / "tern-client", "enroll", aggregator.join_code(), *config)
    done = subprocess.run([BIN / "tern-client", "once", *config, "--set", "client.wait=0"],
                          capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 4 and "too few clients have enrolled for rounds to begin" in done.stderr,
          f"the client does not say why it waits: {done.stderr}")
    now = json.loads(run(BIN / "tern-aggregator", "status", "--json", "--config", aggregator.config))["now"]
    check("waiting for 1 more client that trains: round.min_clients = 2" in now, f"nor does status: {now}")


def losses(said):
    return [float(loss) for loss in re.findall(r'"mean_loss":\s*([-0-9.e+]+)', said)]


def test():
    with Workspace() as workspace:
        said = follow(workspace.path)
        found = losses(said)
        check(len(found) == 10 and found[-1] < found[0], f"ten rounds with one client: {said}")
    with Workspace() as workspace:
        waits(workspace)
    with Workspace() as workspace:
        write_raw(workspace.path / "pump.csv")
        said = follow(workspace.path, "--data", "pump.csv", "--label", "state", "--set", "round.rounds=15")
        found = losses(said)
        check(len(found) == 15 and found[0] < 2 and found[-1] < 0.3, f"the raw table is not learnt: {said}")
        check(re.search("Accuracy    0.[89]", said) and "macro F1 0." in said and "of 1 client that trains" in said,
              f"the printed steps end without an accuracy: {said[-1500:]}")
        check("PROBLEM" not in said, f"check fails: {said}")
    with Workspace() as workspace:
        tells_numbers(workspace.path)
    with Workspace() as workspace:
        finds_anomalies(workspace.path)


main(test)
