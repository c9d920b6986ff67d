"""Small federations under strategies: they learn, what was merged replays to the same bits, and FedBuff uses what comes
after its round. ./tern test runs one of each kind, ./tern test --long all of them. Under a sanitizer rounds are short and as few as bring
a checkpoint, which has the strategy's state; nothing is learnt in these."""
import json
import pathlib
import signal
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, NIGHT, SANITIZED, Aggregator, Workspace, check, main, run  # noqa: E402

CLIENTS, ROUNDS = 6, 17 if SANITIZED else 30
STEPS = 3 if SANITIZED else 30
LEAST = 0 if SANITIZED else 0.65

# Strategies that need dense updates: a median of sparse updates is mostly zero, and distances measure missing values.
DENSE = {"fedmedian", "fedtrimmedavg", "krum", "multikrum"}

STRATEGIES = {
    "fednova": "",
    "fedavg": "",
    "fedprox": "prox_mu=0.1,normalise=yes",
    "fedavgm": "server_momentum=0.5",
    "fedadam": "beta1=0.5",
    "fedadagrad": "server_learning_rate=0.03",
    "fedyogi": "beta1=0.5",
    "fedmedian": "",
    "fedtrimmedavg": "trim=0.2",
    "krum": "",
    "multikrum": "",
    "fedbuff": "staleness_max=3,server_learning_rate=0.5",
}
# A mean, a state that is kept, dense updates, late ones. test_reference.py compares each strategy's numbers.
OF_EACH_KIND = ("fednova", "fedadam", "fedmedian", "fedbuff")


def federation(name, keys):
    cohort = 3 if name == "fedbuff" else CLIENTS
    return {
        "federation": {"model": "mlp:256-32-10", "seed": 5},
        "round": {"strategy": f"{name}:{keys}" if keys else name, "cohort": cohort, "quorum": cohort, "min_clients": CLIENTS, "rounds": ROUNDS,
                  "over_selection": CLIENTS / cohort - 1, "come_back_min": "10ms",
                  "come_back_max": "100ms"},
        "train": {"local_steps": STEPS, "batch_size": 16, "learning_rate": 0.2, "momentum": 0.5},
        "codec": {"codec": "int8" if name in DENSE else "3lc:s=1", "codec_down": "3lc:s=1"},
    }


def train(aggregator):
    results = aggregator.workspace.path / "results.json"
    run(BIN / "tern-fleet", "run", "--results", results,
        "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
        "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
        "--set", f"fleet.clients={CLIENTS}",
        "--set", "data.source=digits:train=1200,test=400,size=16,seed=1",
        "--set", "data.partition=dirichlet", "--set", "data.alpha=1")
    return json.loads(results.read_text())


def count(aggregator, sql):
    database = sqlite3.connect(aggregator.state / "tern.db")
    found = database.execute(sql).fetchone()[0]
    database.close()
    return found


def learn(name, keys):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, federation(name, keys)).start()
        result = train(aggregator)
        check(result["rounds"] == ROUNDS, f"{name}: not all rounds: {result}")
        check(result["final_accuracy"] >= LEAST, f"{name}: {result['accuracy']}")
        aggregator.kill(signal.SIGTERM)
        verified = aggregator.json("verify")
        check(verified["ok"] and verified["rounds"] == ROUNDS, f"{name}: {verified}")
        late = count(aggregator, "select count(*) from updates where merged > 0")
        check((late > 0) == (name == "fedbuff"), f"{name}: {late} late updates were used")
        carried = count(aggregator, "select count(distinct name) from weights where kind = 3")
        expected = {"fedavgm": 1, "fedadagrad": 1, "fedadam": 2, "fedyogi": 2}.get(name, 0)
        check(carried == expected, f"{name}: {carried} states are kept, not {expected}")
        print(f"{name}: {result['final_accuracy']}, {late} late", flush=True)


def test():
    for name in STRATEGIES if NIGHT else OF_EACH_KIND:
        learn(name, STRATEGIES[name])


main(test)
