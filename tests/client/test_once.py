"""tern-client once, as cron runs it: the aggregator keeps the next round's task until the client runs again, so that the
round does not wait for a device that trains nothing between two runs."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run


class Device:
    def __init__(self, workspace, aggregator, name, *options):
        settings = [f"client.server={aggregator.url}", f"client.ca={aggregator.ca}", "client.wait=30s",
                    f"client.state_dir={workspace.path}/{name}", "data.source=digits:train=200,test=50,size=16", *options]
        self.settings = [part for one in settings for part in ("--set", one)]
        run(BIN / "tern-client", "enroll", aggregator.join_code(), *self.settings)

    def once(self):
        done = subprocess.run([BIN / "tern-client", "once", "--json", *self.settings], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        check(done.returncode == 0, f"once exited {done.returncode}: {done.stderr}")
        return json.loads(done.stdout), done.stderr


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:256-10"},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": 3}}).start()
        device = Device(workspace, aggregator, "device")
        evaluator = Device(workspace, aggregator, "evaluator", "client.evaluator=yes")
        for number in (1, 2):
            said, _ = device.once()
            check((said["ended_by"], said["answer"], said["round"]) == ("uploaded", "accepted", number), f"said {said}")
            rounds = aggregator.json("rounds", "1")
            check((rounds[-1]["round"], rounds[-1]["state"]) == (number + 1, "selected"),
                  f"the device left with a task: {rounds}")
            said, log = evaluator.once()
            check(said["ended_by"] == "waiting" and said["evaluated"], f"said {said}")
            check(log.count("event=task") == 1, f"the evaluator took another task: {log}")
        device.once()


main(test)
