"""Three rounds of scalecom: in each one client sends values and their indices, the others only values;
what they send is applied as what the leader sends, and replays to the same model."""
import json
import pathlib
import signal
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402

CLIENTS, ROUNDS = 3, 3


def fleet(aggregator):
    workspace = aggregator.workspace.path
    results = workspace / "results.json"
    run(BIN / "tern-fleet", "run", "--results", results,
        "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
        "--set", f"fleet.join_code={aggregator.join_code(uses=CLIENTS + 1)}",
        "--set", f"fleet.clients={CLIENTS}",
        "--set", "data.source=digits:train=600,test=100,size=16,seed=1")
    return json.loads(results.read_text())


def uploads(aggregator):
    """Payload bytes of each round's updates, by client."""
    database = sqlite3.connect(aggregator.state / "tern.db")
    rows = database.execute("select round, client, up_payload from meter order by round, client").fetchall()
    database.close()
    rounds = {}
    for number, client, payload in rows:
        if number > 0 and payload > 0:
            rounds.setdefault(number, {})[client] = payload
    return rounds


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-32-10", "seed": 5},
            "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "rounds": ROUNDS,
                      "come_back_min": "10ms", "come_back_max": "100ms"},
            "train": {"local_steps": 60, "batch_size": 16, "learning_rate": 0.1},
            "codec": {"codec": "scalecom:p=0.1", "codec_down": "3lc:s=1"},
        }).start()
        result = fleet(aggregator)
        aggregator.kill(signal.SIGTERM)  # by then all is counted
        check(result["rounds"] == ROUNDS, f"not all rounds: {result}")
        rounds = uploads(aggregator)
        check(sorted(rounds) == list(range(1, ROUNDS + 1)), f"no such uploads: {rounds}")
        trainers = sorted(set().union(*rounds.values()))
        check(len(trainers) == CLIENTS, f"clients that uploaded: {trainers}")
        for number, sent in rounds.items():
            leader = trainers[number % CLIENTS]
            followers = {payload for client, payload in sent.items() if client != leader}
            check(len(sent) == CLIENTS and len(followers) == 1, f"round {number}: {sent}")
            # 4 bytes a value, and for the leader about 1 more for its index.
            check(1.15 * max(followers) < sent[leader], f"round {number}, leader {leader}: {sent}")
        check(aggregator.json("status")["accuracy"] > 0.3, "nothing was learned")
        aggregator.verb("verify")


main(test)
