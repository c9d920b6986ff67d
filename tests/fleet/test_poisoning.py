"""Two clients of twenty that send ten times their change, negated, cost a federation with default settings a few
points; without norm_bound it learns nothing. A cell of configs/experiments/poisoning.ini, shortened. All
clients take part in every round, so that its accuracies are the same on every machine."""
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402

CLIENTS, ATTACKERS, ROUNDS = 20, 2, 20
SEEDS = (4, 5, 6)  # single seeds lose .014 to .051
UNBOUND_ROUNDS = 5  # after some more it diverges, and then no round ends
MOST_LOST = 0.05  # in the mean of the seeds; they lose .037
GUESSING = 0.2  # of 8 classes; without a bound it is at .113


def settings(rounds, strategy, seed):
    return {
        "federation": {"model": "mlp:24-16-8", "seed": seed},
        "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "rounds": rounds,
                  "come_back_min": "10ms", "come_back_max": "100ms", "strategy": strategy},
        "train": {"local_steps": 10, "batch_size": 16, "learning_rate": 0.2},
        "limits": {"enrollments_per_minute": 0},
    }


def trained(attackers, rounds=ROUNDS, strategy="fedavgm", seed=SEEDS[0]):
    """Accuracy of the last version."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(rounds, strategy, seed)).start()
        results = workspace.path / "results.json"
        run(BIN / "tern-fleet", "run", "--results", results,
            "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
            "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
            "--set", f"fleet.clients={CLIENTS}", "--set", f"fleet.attackers={attackers / CLIENTS}",
            "--set", "fleet.attack=scaled", "--set", f"fleet.evaluate_every={rounds}",
            "--set", "fleet.measure_replicas=0",
            "--set", "data.source=sensors:train=3000,test=1000,devices=50,seed=1")
        found = json.loads(results.read_text())
    check(found["rounds"] == rounds, f"of {rounds} rounds it made {found['rounds']}")
    return found["final_accuracy"]


def test():
    alone = statistics.mean(trained(0, seed=seed) for seed in SEEDS)
    bound = statistics.mean(trained(ATTACKERS, seed=seed) for seed in SEEDS)
    unbound = trained(ATTACKERS, UNBOUND_ROUNDS, "fedavgm:norm_bound=0")
    print(f"without attackers {alone:.4f}; with them {bound:.4f}, and without a bound {unbound:.4f}")
    check(alone > 0.75, f"without attackers it learns too little: {alone}")
    check(bound >= alone - MOST_LOST, f"attackers cost {alone - bound:.4f} in spite of the bound")
    check(unbound < GUESSING, f"attackers that nothing bounds leave {unbound}: the attack is too weak to tell")


main(test)
