"""Later rounds cost no more bytes than earlier ones while the learning rate falls, updates and downloads
alike, with the defaults."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402

CLIENTS, COHORT, ROUNDS = 20, 4, 60
SETTLED, LATE = 15, 45  # rounds 15 to 44 are held against those from 45 on
# Updates come to .81 and downloads to .91; to 2.8 with buffers that are kept (and 3lc:s=1), and to 1.16 with
# downloads that lead as near as the trunk of the newest version is.
MOST = 1.1


def settings():
    return {
        "federation": {"model": "mlp:256-40-10", "seed": 3},
        "round": {"cohort": COHORT, "quorum": COHORT, "min_clients": CLIENTS, "rounds": ROUNDS,
                  "come_back_min": "10ms", "come_back_max": "100ms"},
        "train": {"local_steps": 10, "batch_size": 16, "learning_rate": "cosine:rate=0.1,final=0.0005",
                  "momentum": 0.4, "weight_decay": 0.001},
    }


def trained():
    """The results of a federation: one record for each update, with its round and bytes."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings()).start()
        results = workspace.path / "results.json"
        run(BIN / "tern-fleet", "run", "--results", results,
            "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
            "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
            "--set", f"fleet.clients={CLIENTS}", "--set", f"fleet.evaluate_every={ROUNDS}",
            "--set", "fleet.measure_replicas=0",
            "--set", "data.source=digits:train=2000,test=500,size=16,seed=1",
            "--set", "data.partition=dirichlet", "--set", "data.alpha=0.5", "--set", "data.seed=3")
        return json.loads(results.read_text())


def mean(found, what, first, end):
    values = [value for value, version in zip(found[what], found["record_version"]) if first <= version < end]
    return sum(values) / len(values)


def test():
    found = trained()
    for what in ("record_payload_up", "record_payload_down"):
        settled = mean(found, what, SETTLED, LATE)
        late = mean(found, what, LATE, ROUNDS + 1)
        print(f"{what}: {settled:.0f} bytes in rounds {SETTLED} to {LATE - 1}, {late:.0f} later")
        check(late <= MOST * settled, f"{what} grows from {settled:.0f} to {late:.0f} bytes")


main(test)
