"""tern-client on the command line against a real aggregator: what enrolling keeps, what the verbs
print as JSON, and which exit code says what."""
import fcntl
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main


class Client:
    def __init__(self, workspace, aggregator):
        self.state = workspace.path / "client"
        self.options = ["--set", f"client.server={aggregator.url}",
                        "--set", f"client.ca={aggregator.ca}",
                        "--set", f"client.state_dir={self.state}",
                        "--set", "data.source=digits:train=200,test=50,size=16",
                        "--set", "client.wait=0"]

    def run(self, *arguments, code=0, says=""):
        done = subprocess.run([BIN / "tern-client", *arguments[:1], *self.options, *arguments[1:]],
                              capture_output=True, text=True, timeout=PATIENCE)
        shown = " ".join(arguments)
        check(done.returncode == code,
              f"{shown}: exit {done.returncode}, not {code}: {done.stderr}")
        check(says in done.stderr, f"{shown} does not say {says!r}: {done.stderr}")
        return done.stdout

    def json(self, *arguments, code=0):
        return json.loads(self.run(*arguments, "--json", code=code))

    def handshake(self):
        meter = self.json("meter")
        return meter["up"]["handshake"]["tls"] + meter["down"]["handshake"]["tls"]

    def wire(self):
        meter = self.json("meter")
        return meter["up"]["total"]["wire"] + meter["down"]["total"]["wire"], meter["month"]["wire"]


def enrolling_again_keeps_the_meter(client, aggregator):
    first = client.json("enroll", aggregator.join_code())
    check(first == {"client": 1, "model": "mlp:256-16-10", "evaluator": False}, f"said {first}")
    wire, month = client.wire()
    check(wire > 1000 and month == wire, f"{wire} bytes, {month} this month")
    check(client.handshake() <= 1000, f"a full handshake takes {client.handshake()} bytes")
    client.run("enroll", "CODE", code=2, says="--force")
    check(client.wire() == (wire, month), "a refusal without a byte changed the meter")
    second = client.json("enroll", "--force", aggregator.join_code())
    check(second["client"] == 2, f"said {second}")
    after, month_after = client.wire()
    check(after > wire + 1000, f"the meter went from {wire} to {after} bytes")
    check(month_after == after, f"the month went from {month} to {month_after} bytes")


def a_factory_writes_the_identity(workspace, aggregator):
    client = Client(workspace, aggregator)
    client.state = workspace.path / "provisioned"
    client.options += ["--set", f"client.state_dir={client.state}"]
    facts = aggregator.json("provision", "--name", "valve")
    path = workspace.path / "valve.json"
    for broken in ("", "[]", "{}", json.dumps(facts | {"token": "short"}),
                   json.dumps(facts | {"client": 0}), json.dumps(facts | {"model_hash": "00"}),
                   json.dumps(facts | {"seed": -1}), " " * 5000,
                   json.dumps(facts | {"evaluator": "no"}), json.dumps(facts) * 2,
                   json.dumps(facts) + "\n\0"):
        path.write_text(broken)
        client.run("enroll", "--provisioned", str(path), code=2, says="provision --json")
    path.write_text(json.dumps(facts | {"model_hash": "00" * 32}))
    client.run("enroll", "--provisioned", str(path), code=3, says="model")
    client.run("enroll", "--provisioned", str(path) + ".not", code=2, says="cannot be read")
    path.write_text(json.dumps(facts) + "\r\n\n")
    said = client.json("enroll", "--provisioned", str(path))
    check(said["client"] == facts["client"], f"said {said}")
    client.run("enroll", "--provisioned", str(path), code=2, says="--force")
    client.run("meter", code=1, says="nothing was sent")
    said = client.json("once", code=4)  # the aggregator knows it
    check(said["ended_by"] == "waiting" and client.wire()[0] > 0, f"said {said}")


def a_wrong_setting_is_a_usage_error(client):
    for source in ("idx:/nonexistent", "fish:1", "digits:train=200,test=50,size=28"):
        client.run("once", "--set", f"data.source={source}", code=2, says="data.source")
    client.run("once", "--set", "data.shard=1/999", code=2, says="shared among 999 clients")


def a_local_lock_is_no_refusal(client):
    with open(client.state / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        client.run("once", code=1, says="in use by another process")


def once_says_what_it_came_to(client):
    client.run("run", "--json", code=2, says="--json")
    said = client.json("once")
    check(said["ended_by"] == "uploaded" and said["answer"] == "accepted" and said["round"] == 1,
          f"said {said}")
    check(said["round_wire_bytes"] > said["bytes"] > 0, f"said {said}")
    said = client.json("once", code=4)  # the first identity has not sent its part
    check(said["ended_by"] == "waiting" and said["why"], f"said {said}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-16-10", "seed": 3},
            "round": {"cohort": 2, "quorum": 2, "min_clients": 2, "deadline": "5m", "rounds": 3},
            "train": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.05},
        }).start()
        client = Client(workspace, aggregator)
        enrolling_again_keeps_the_meter(client, aggregator)
        a_wrong_setting_is_a_usage_error(client)
        once_says_what_it_came_to(client)
        a_local_lock_is_no_refusal(client)
        a_factory_writes_the_identity(workspace, aggregator)


main(test)
