"""Devices whose error buffers are not what they were are found out, named once, and put right.

Three clients train. One loses the record of its buffer, one gets a backup of its state directory
back, one is copied, and both copies run. The ledger names each, the log says so once each, what was
applied before is reset, and the third client, which was only killed now and then, is not suspected.
"""

import re
import shutil
import time

from harness import HELPERS, PATIENCE, Aggregator, Failure, Workspace, check, main, run

CLIENTS = 3
LOST, RESTORED, HONEST = range(CLIENTS)
BLOCKS = 3000  # rounds that the clients' model has room for
PROGRAM = HELPERS / "conservation_client"


class Devices:
    def __init__(self, workspace, aggregator):
        self.workspace, self.aggregator = workspace, aggregator
        self.code = aggregator.join_code(uses=CLIENTS)
        self.running = {}

    def directory(self, name):
        return self.workspace.path / f"device-{name}"

    def command(self, name, *more):
        url = f"https://localhost:{self.aggregator.port}"
        return [PROGRAM, "run", url, self.aggregator.ca, self.directory(name), self.code, *more]

    def enroll(self, name):
        run(*self.command(name, "--settle"))

    def start(self, name):
        self.running[name] = self.workspace.start(*self.command(name), log=f"device-{name}")

    def kill(self, name):
        self.running[name].kill()
        self.running[name].wait()

    def copy(self, name, to):
        shutil.rmtree(self.directory(to), ignore_errors=True)
        shutil.copytree(self.directory(name), self.directory(to))


def row_of(aggregator, index):
    rows = [row for row in aggregator.json("ledger") if row["client"] == index + 1]
    return rows[0] if rows else {"anomaly": "none", "sequence": 0, "round": 0}


def wait_for(what, aggregator, index, condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while True:
        row = row_of(aggregator, index)
        if condition(row):
            return row
        if time.monotonic() > deadline:
            raise Failure(f"{what}: client {index + 1} has {row}")
        time.sleep(0.05)


def wait_for_updates(aggregator, index, more):
    until = (row_of(aggregator, index)["round"] or 0) + more
    return wait_for("no updates", aggregator, index, lambda row: (row["round"] or 0) >= until)


def lose_a_buffer(aggregator, devices):
    before = wait_for_updates(aggregator, LOST, 3)
    devices.kill(LOST)
    record = devices.directory(LOST) / "upload"
    record.write_bytes(record.read_bytes()[:-1] + b"?")
    devices.start(LOST)
    row = wait_for("not found", aggregator, LOST, lambda row: row["anomaly"] != "none")
    check(row["anomaly"] == "lost", f"a damaged record is named {row}")
    check(row["generation"] != before["generation"], "the generation is the old one")


def restore_a_backup(aggregator, devices):
    wait_for_updates(aggregator, RESTORED, 3)
    devices.kill(RESTORED)
    devices.copy(RESTORED, "backup")
    devices.start(RESTORED)
    wait_for_updates(aggregator, RESTORED, 5)
    devices.kill(RESTORED)
    before = row_of(aggregator, RESTORED)
    devices.copy("backup", RESTORED)
    devices.start(RESTORED)
    row = wait_for("not found", aggregator, RESTORED, lambda row: row["anomaly"] != "none")
    check(row["anomaly"] == "restored", f"a restored backup is named {row}")
    wait_for("not reset", aggregator, RESTORED,
             lambda row: row["generation"] != before["generation"])
    row = wait_for_updates(aggregator, RESTORED, 5)
    check(row["directive"] == "limit", f"it is still told {row['reason']}")


# Its anomaly goes from restored to cloned: at first the second device looks like a backup.
def clone_a_device(aggregator, devices):
    devices.kill(RESTORED)
    devices.copy(RESTORED, "clone")
    devices.start(RESTORED)
    devices.start("clone")
    row = wait_for("not found", aggregator, RESTORED, lambda row: row["anomaly"] == "cloned")
    check("Revoke" in row["sentence"], row["sentence"])
    wait_for_updates(aggregator, RESTORED, 5)
    check(row_of(aggregator, RESTORED)["anomaly"] == "cloned", "the clone was forgotten")


def bother_the_honest_one(aggregator, devices):
    for _ in range(5):
        wait_for_updates(aggregator, HONEST, 2)
        devices.kill(HONEST)
        devices.start(HONEST)


def check_log(workspace):
    text = "".join(path.read_text(errors="replace")
                   for path in workspace.path.glob("*.log") if "aggregator" in path.name)
    found = re.findall(r"level=warn.*event=error-buffer request=\d+ client=(\d+) anomaly=(\w+)", text)
    for once in (("1", "lost"), ("2", "cloned")):
        check(found.count(once) == 1, f"the log says {found}")
    check(("2", "restored") in found, f"the log says {found}")
    check(all(client != "3" for client, _ in found), f"the log says {found}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": f"softmax:{BLOCKS + 1}-8", "seed": 5},
            "round": {"cohort": CLIENTS, "quorum": 1, "min_clients": CLIENTS, "deadline": "600ms",
                      "min_interval": "50ms", "come_back_min": "20ms", "come_back_max": "200ms"},
            "limits": {"requests_per_minute": 1000000},
        }).start()
        devices = Devices(workspace, aggregator)
        for index in range(CLIENTS):
            devices.enroll(index)
        for index in range(CLIENTS):
            devices.start(index)
        lose_a_buffer(aggregator, devices)
        restore_a_backup(aggregator, devices)
        clone_a_device(aggregator, devices)
        bother_the_honest_one(aggregator, devices)
        honest = row_of(aggregator, HONEST)
        check(honest["anomaly"] == "none", f"the honest client is suspected: {honest}")
        check_log(workspace)
        print(aggregator.verb("ledger"))


main(test)
