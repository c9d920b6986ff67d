"""Local training that fails says why, and what to do: in the client's log and in `tern-client status`, there until
training works again. A loss that is no number, data without a row to train on, a command that ends with an error, and updates
above limits.norm."""

import json
import re
import time

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run

class Client:
    def __init__(self, workspace, model, source, extra="", train=(), limits=()):
        self.workspace = workspace
        self.aggregator = Aggregator(workspace, {
            "federation": {"model": model}, "round": {"min_clients": 1, "cohort": 1, "rounds": 1000},
            "train": {"local_steps": 20, "batch_size": 8, **dict(train)}, "limits": dict(limits)}).start()
        self.config = workspace.path / "client.ini"
        self.state = workspace.path / "client"
        self.config.write_text(
            f"[client]\nserver = {self.aggregator.url}\nca = {self.aggregator.ca}\nstate_dir = {self.state}\n"
            f"retry_min = 100ms\nretry_max = 1s\n{extra}[data]\nsource = {source}\n")
        self.verb("enroll", self.aggregator.join_code())
        self.process = None

    def verb(self, *arguments):
        return run(BIN / "tern-client", *arguments, "--config", self.config)

    def start(self):
        self.process = self.workspace.start(BIN / "tern-client", "run", "--config", self.config, log="client")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)

    def log_line(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = re.search(pattern, (self.workspace.path / "client.log").read_text(errors="replace"))
            if found:
                return found
            time.sleep(0.02)
        check(False, f"no {pattern} in the log")

    def says(self, *parts):
        """In the log, in the state directory, and of a round that there was."""
        line = self.log_line("event=failure .*local training failed.*").group()
        check(all(part in line for part in parts), f"the log says: {line}")
        self.stop()
        text = self.verb("status")
        check(all(part in text for part in (*parts, "training  failed in round ")), f"status says: {text}")
        found = json.loads(self.verb("status", "--json"))["training_failed"]
        check(all(part in found["why"] for part in parts) and found["round"] >= 1, f"status --json says: {found}")
        check(abs(found["time_s"] - time.time()) < PATIENCE, f"{found}")
        return found

def numbers(path, target):
    path.write_text("x,y\n" + "".join(f"{i % 7 - 3},{target + i % 5}\n" for i in range(60)))
    return path

def named(client, why):
    """The aggregator's status names the client, once it has come again."""
    deadline = time.monotonic() + PATIENCE
    while "training failed at client 1 (" not in client.aggregator.verb("status"):
        check(time.monotonic() < deadline, "the aggregator names nobody")
        time.sleep(0.1)
    status = json.loads(client.aggregator.verb("status", "--json"))
    found = status["training_failed"][0]
    check(status["clients_failing"] == 1 and found["client"] == 1 and why in found["why"], f"status --json: {found}")

def a_loss_is_no_number(workspace):
    table = numbers(workspace.path / "table.csv", 1e9)
    client = Client(workspace, "mlp:1-8-1,loss=mse", f"csv:{table},target=y,test=0", train={"learning_rate": 0.02})
    client.start()
    step = client.log_line(r"the loss of local step (\d+) of 20 is not finite")
    check(2 <= int(step[1]) <= 20, f"at step {step[1]}")
    client.log_line("event=hint .*not scaled.*learning_rate is too high")
    named(client, "its loss or a value of its update was not finite")
    found = client.says("is not finite")
    check(found["result"] == "non-finite" and "not scaled" in found["why"], f"{found}")
    numbers(table, 0)
    client.start()
    client.log_line("event=uploaded .*answer=accepted")
    client.stop()
    check("training" not in client.verb("status"), "status tells of what is over")
    check("training_failed" not in json.loads(client.verb("status", "--json")), "so does --json")
    status = json.loads(client.aggregator.verb("status", "--json"))
    check(status["clients_failing"] == 0 and status["training_failed"] == [], f"the aggregator says: {status}")

def no_row_is_normal(workspace):
    table = workspace.path / "table.csv"
    table.write_text("a,b,state\n" + "".join(f"{i % 7},{i % 5},bad\n" for i in range(40)))
    client = Client(workspace, "mlp:2-1-2,loss=reconstruction", f"csv:{table},label=state,classes=good|bad,test=0")
    client.start()
    found = client.says("none of the 40 training rows", "the first class")
    check(found["result"] == "not-found", f"{found}")

def a_command_ends_with_an_error(workspace):
    trainer = workspace.path / "train.sh"
    trainer.write_text("#!/bin/sh\necho 'no such table: readings' >&2\nexit 3\n")
    trainer.chmod(0o755)
    client = Client(workspace, "mlp:2-4-2", "digits", f"trainer = command\ntrainer_command = {trainer}\n")
    client.start()
    client.log_line("event=trainer-output line=.no such table: readings")
    client.says("exit code 3", "no such table: readings")

def an_update_is_above_the_limit_of_norms(workspace):
    """The causes are several, and the log of the aggregator has the norm."""
    client = Client(workspace, "mlp:256-8-10", "digits", limits={"norm": 1e-9})
    client.start()
    client.log_line("event=hint .*above limits.norm: unscaled columns .*local_steps, an error buffer .*too low for this model")
    client.stop()
    log = (workspace.path / "aggregator.log").read_text(errors="replace")
    check(re.search(r"event=update-rejected .*reason=norm-limit count=1 norm=[0-9.e-]+ limit=1e-09", log), "the aggregator logs the norm")

def test():
    for part in (a_loss_is_no_number, no_row_is_normal, a_command_ends_with_an_error, an_update_is_above_the_limit_of_norms):
        with Workspace() as workspace:
            part(workspace)

main(test)
