"""Where the kernel counts no bytes the meter's are estimated, near what it would have counted, and budgets hold."""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, Aggregator, Workspace, check, main  # noqa: E402

SHIM = pathlib.Path(os.environ["TERN_TEST_BIN_DIR"]) / "uncounted_shim.so"
PAUSED = 4


class Client:
    def __init__(self, workspace, aggregator, code, name, counted):
        self.environment = {**os.environ, **({} if counted else {"LD_PRELOAD": str(SHIM)})}
        keys = {"client.server": aggregator.url, "client.ca": aggregator.ca, "client.wait": "2s",
                "client.state_dir": workspace.path / name, "data.source": "digits:train=300,test=10,size=16,seed=4"}
        self.options = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        self.run("enroll", code)

    def run(self, *verb, code=0):
        done = subprocess.run([BIN / "tern-client", *verb, *self.options], env=self.environment, timeout=150,
                              capture_output=True, text=True, check=False)
        check(done.returncode == code, f"{verb} exited {done.returncode}: {done.stderr}")
        return done

    def meter(self):
        return json.loads(self.run("meter", "--json").stdout)


def moved(meter, layer):
    return sum(meter[direction]["total"][layer] for direction in ("up", "down"))


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-64-10", "seed": 9},
            "round": {"cohort": 1, "min_clients": 1, "rounds": 3, "come_back_min": "10ms"},
            "train": {"local_steps": 2, "batch_size": 8}, "codec": {"codec": "float32"}}).start()
        counted = Client(workspace, aggregator, aggregator.join_code(), "counted", True)
        check("meter-estimated" not in counted.run("once").stderr, "the kernel's count is called an estimate")
        aggregator.verb("revoke", "1")
        blind = Client(workspace, aggregator, aggregator.join_code(), "blind", False)
        said = blind.run("once").stderr
        check(said.count("event=meter-estimated") == 1, f"it is not said once: {said}")

        shown = json.loads(blind.run("status", "--json").stdout)
        check(shown["meter_estimated"] and "estimated" in blind.run("status").stdout, f"status says {shown}")
        check(not json.loads(counted.run("status", "--json").stdout)["meter_estimated"], "status says it of all")
        known, guessed = counted.meter(), blind.meter()
        for layer, most in (("tls", 1.05), ("wire", 1.1)):
            added = [moved(meter, layer) / moved(meter, "http") for meter in (known, guessed)]
            check(0.98 < added[1] / added[0] < most, f"{layer} is {added[1]:.3f} times http, not {added[0]:.3f}")
        month = guessed["month"]["wire"]
        check(month == moved(guessed, "wire"), f"the month's budget counts {month}")
        blind.options += ["--set", f"budget.per_month={month + 1000}"]
        said = json.loads(blind.run("once", "--json", code=PAUSED).stdout)
        check("budget of the month" in said["why"], f"the budget does not hold: {said}")


main(test)
