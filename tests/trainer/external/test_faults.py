"""tern-client with a command that goes wrong, against a real aggregator: the task is dropped with a
reason and nothing else changes; signals end the command with the client; a pause stops it."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run

FAKE = pathlib.Path(__file__).parent / "fake_trainer.py"


def until(what, condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"never: {what}")
        time.sleep(0.02)


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "gone"


class Client:
    def __init__(self, workspace, aggregator):
        self.workspace = workspace
        self.state = workspace.path / "client"
        self.root = workspace.path / "root"
        self.options = ["--set", f"client.server={aggregator.url}",
                        "--set", f"client.ca={aggregator.ca}",
                        "--set", f"client.state_dir={self.state}", "--set", "client.wait=0",
                        "--set", "client.retry_min=100ms", "--set", "client.retry_max=1s",
                        "--set", "client.trainer=command"]
        run(BIN / "tern-client", "enroll", *self.options, aggregator.join_code())

    def command(self, verb, trainer, *more):
        return [BIN / "tern-client", verb, *self.options, "--set",
                f"client.trainer_command=/usr/bin/python3 '{FAKE}' {trainer}", *more]

    def once(self, trainer, *more, code=0):
        done = subprocess.run(self.command("once", trainer, *more), capture_output=True, text=True,
                              timeout=PATIENCE)
        check(done.returncode == code, f"{trainer}: exit {done.returncode}: {done.stderr}")
        check(not (self.state / "trainer").exists(), f"{trainer}: its folder is left")
        return done.stderr

    def held(self):
        status = json.loads(run(BIN / "tern-client", "status", "--json", *self.options))
        status.pop("training_failed", None)  # what failed before
        return status, (self.state / "upload").read_bytes() if (self.state / "upload").exists() \
            else None

    def start(self, trainer, *more):
        """Starts a client and waits until its command runs; returns both process ids."""
        client = self.workspace.start(*self.command("run", trainer, *more), log="client")
        children = pathlib.Path(f"/proc/{client.pid}/task/{client.pid}/children")
        until("the command runs", lambda: children.read_text().split() and
              any(self.state.glob("trainer/*/task.json")))
        return client, int(children.read_text().split()[0])


def every_failure_is_said_and_changes_nothing(client):
    before = client.held()
    for trainer, says in (
            ("raises", "its last line was: ValueError: my own mistake"), ("segfault", "signal 11"),
            ("not_a_number", "NaN or infinity"), ("no_result", "the trainer wrote no result.json"),
            ("renamed", "is not one of the model's")):
        said = client.once(trainer, code=1)
        check("event=failure result=trainer" in said and says in said, f"{trainer}: {said}")
        check(said.count("event=failure") >= 2, f"not tried again: {said}")
        check(client.held() == before, f"{trainer}: the state changed")
    said = client.once("raises", code=1)
    check('event=trainer-output line="ValueError: my own mistake"' in said, f"said {said}")
    said = client.once("hang", "--set", "client.trainer_timeout=300ms", code=1)
    check("longer than 300 ms" in said, f"said {said}")
    check(client.held() == before, "the state changed")


def wrong_settings_are_usage_errors(client):
    client.once("good", "--set", "client.trainer=magic", code=2)
    client.once("'good", code=2)
    client.once("good", "--set", "client.trainer=library", code=2)
    client.once("good", "--set", "client.trainer=library", "--set",
                "client.trainer_library=/nonexistent.so", code=2)


def a_signal_ends_the_command(client):
    process, child = client.start("hang")
    process.send_signal(signal.SIGTERM)
    check(process.wait(timeout=PATIENCE) == 5, f"exit {process.returncode}")
    check(state_of(child) == "gone", "the command outlived the client")
    check(not (client.state / "trainer").exists(), "its folder is left")


def a_kill_ends_the_command_too(client):
    process, child = client.start("hang")
    process.kill()
    process.wait()
    until("the command ends", lambda: state_of(child) in ("gone", "Z"))
    check((client.state / "trainer").exists(), "who removed the folder?")


def set_temperature(client, degrees):
    zone = client.root / "sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True, exist_ok=True)
    (zone / "type").write_text("cpu\n")
    (zone / "temp").write_text(f"{degrees * 1000}\n")


def a_pause_stops_the_command(client):
    set_temperature(client, 40)
    process, child = client.start("hang", "--set", "client.when=temperature<70", "--set",
                                  f"client.root={client.root}", "--set", "client.look_again=1s")
    check(state_of(child) in "SR", f"it is {state_of(child)}")
    set_temperature(client, 90)
    until("it is stopped", lambda: state_of(child) == "T")
    set_temperature(client, 40)
    until("it goes on", lambda: state_of(child) in "SR")
    set_temperature(client, 90)
    until("it is stopped again", lambda: state_of(child) == "T")
    process.send_signal(signal.SIGTERM)
    check(process.wait(timeout=PATIENCE) == 5 and state_of(child) == "gone", "it did not end")


def then_it_works(client, aggregator):
    said = client.once("good")
    check("answer=accepted" in said and "num_examples=7" in said, f"said {said}")
    said = client.once("facts")
    check("event=trainer-metrics" in said and "learning_rate=0.05" in said, f"said {said}")
    check(client.held()[0]["updates_answered"] == 2, f"{client.held()}")
    client.workspace.processes.remove(aggregator.process)
    aggregator.kill(signal.SIGTERM)
    aggregator.verb("verify")


def test():
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:5-3", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m", "rounds": 9},
            "train": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.05},
        }).start()
        client = Client(workspace, aggregator)
        every_failure_is_said_and_changes_nothing(client)
        wrong_settings_are_usage_errors(client)
        a_signal_ends_the_command(client)
        a_kill_ends_the_command_too(client)
        a_pause_stops_the_command(client)
        then_it_works(client, aggregator)


main(test)
