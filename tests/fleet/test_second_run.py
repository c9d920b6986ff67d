"""A fleet that keeps its clients in files goes on with them in a second run, whose results are of that
run alone; and what the clients count is what the aggregator reports."""
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main, run  # noqa: E402

CLIENTS = 3


def fleet(aggregator, code):
    workspace = aggregator.workspace.path
    results = workspace / "results.json"
    run(BIN / "tern-fleet", "run", "--results", results,
        "--set", f"fleet.server={aggregator.url}", "--set", f"fleet.ca={aggregator.ca}",
        "--set", f"fleet.join_code={code}", "--set", f"fleet.clients={CLIENTS}",
        "--set", "fleet.store=files", "--set", f"fleet.state_dir={workspace}/fleet",
        "--set", "data.source=digits:train=120,test=40,size=16,seed=1")
    return json.loads(results.read_text())


def restart(aggregator, rounds):
    aggregator.kill(signal.SIGTERM)
    aggregator.settings["round"]["rounds"] = rounds
    aggregator.write_config()
    aggregator.start()


def compare(fleet_, status):
    """Both ends count the same bytes; only a connection's last packets, and acknowledgements, may be seen by one of them."""
    mean = status["per_client_and_round"]
    check(status["client_rounds"] == fleet_["participations"], f"{status} beside {fleet_}")
    for layer, share in (("payload", 1e-6), ("http", 1e-6), ("tls", 0.02), ("wire", 0.2)):
        for way in ("up", "down"):
            key = f"{layer}_{way}"
            check(near(mean[key], fleet_[key], share), f"{key}: {mean[key]}, not {fleet_[key]}")


def near(a, b, share):
    return abs(a - b) <= share * min(a, b)


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:256-10", "seed": 3},
            "round": {"cohort": 2, "quorum": 2, "min_clients": CLIENTS, "rounds": 3,
                      "come_back_min": "10ms", "come_back_max": "100ms"},
            "train": {"local_steps": 2, "batch_size": 8},
            "codec": {"codec": "3lc:s=1"},
        }).start()
        code = " ".join(aggregator.join_code(2, "--tag", f"site={site}") for site in "ab")
        first = fleet(aggregator, code)
        tags = {client["name"]: client["tags"] for client in aggregator.json("clients")}
        check([tags[name] for name in sorted(tags)] == ["site=a", "site=b"] * 2, f"codes in turn, not {tags}")
        check(first["rounds"] == 3 and len(first["accuracy"]) == 3, f"first run: {first}")
        at_once = aggregator.json("report", "bytes")["total"]
        check(at_once["payload_up"] > 0, f"a run's bytes are not reported at its end: {at_once}")

        restart(aggregator, rounds=5)
        compare(first, aggregator.json("status"))
        second = fleet(aggregator, code)
        check(second["rounds"] == 2 and len(second["accuracy"]) == 2, f"second run: {second}")
        check(second["final_accuracy"] == second["accuracy"][-1], f"second run: {second}")
        check(second["participations"] == 4, f"two rounds of two updates, not {second}")
        check(near(first["payload_up"], second["payload_up"], 0.4),
              f"payload_up: {first['payload_up']}, then {second['payload_up']}")
        sent = [run["wire_up"] * run["participations"] for run in (first, second)]
        check(sent[1] < sent[0], f"the second run counts the first one's bytes: {sent}")

        restart(aggregator, rounds=5)
        nothing = fleet(aggregator, code)
        check(nothing["rounds"] == 0 and nothing["participations"] == 0, f"third run: {nothing}")


main(test)
