#!/usr/bin/python3
"""Labels, rollback and reject with a real client: a labelled version outlives the prune, becomes the next version of a running
service, and the client goes on from it. The aggregator is killed between the order and the version."""

import hashlib
import json
import signal
import sqlite3
import subprocess

from harness import BIN, Aggregator, Workspace, check, main, run, wait_until


class Device:
    """tern-client, run once a round."""

    def __init__(self, workspace, aggregator, name="client", *settings):
        self.settings = [*settings, f"client.server={aggregator.url}", f"client.ca={aggregator.ca}",
                         f"client.state_dir={workspace.path}/{name}", "client.wait=10s", "client.retry_min=100ms",
                         "data.source=digits:train=50,test=50,size=16"]

    def verb(self, verb, *arguments):
        run(BIN / "tern-client", verb, *arguments, *(part for one in self.settings for part in ("--set", one)))

    def rounds(self, aggregator, last):
        while aggregator.json("status")["version"] < last:
            self.verb("once")


def model(aggregator, *options):
    path = aggregator.workspace.path / "model.f32"
    report = json.loads(aggregator.verb("export", str(path), *options, "--json"))
    return report["model_sha256"], path.read_bytes()


def refusal(aggregator, *arguments, code=1):
    """The reason that a verb which exits with this code prints."""
    command = [BIN / "tern-aggregator", *arguments, "--config", aggregator.config]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    check(done.returncode == code, f"{arguments} exited {done.returncode}: {done.stderr}")
    return done.stderr


def has_dropped_rows(aggregator):
    """Whether all pruned rounds have lost the rows of their updates, too."""
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        return database.execute("select rows_pruned = rounds_pruned and rows_pruned > 0 from totals").fetchone()[0]


def begin(workspace, rounds=0):
    """A federation of one client."""
    aggregator = Aggregator(workspace, {
        "federation": {"model": "softmax:256-10", "seed": 3},
        "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m", "come_back_min": "10ms",
                  "strategy": "fedavgm", "rounds": rounds},
        "codec": {"codec": "float32"},  # a checkpoint with every round, up to which `prune` drops updates
        "train": {"local_steps": 5, "batch_size": 10, "learning_rate": 0.05},
    }).start()
    device = Device(workspace, aggregator)
    device.verb("enroll", aggregator.join_code())
    return aggregator, device


def test():
    undo()
    reject_after_prune()
    changed_byte()
    after_the_end()
    best_version()


def undo():
    with Workspace() as workspace:
        aggregator, device = begin(workspace)
        device.rounds(aggregator, 2)
        aggregator.verb("label", "2", "release-1")
        kept = model(aggregator, "--version", "release-1", "--global")
        device.rounds(aggregator, 5)
        labels = aggregator.json("label")
        check([(row["label"], row["version"], row["bytes"]) for row in labels] == [("release-1", 2, 10280)],
              f"labels are {labels}")
        aggregator.verb("label", "3", "release-1", ok=(1,))
        aggregator.verb("label", "3", "3rd", ok=(2,))
        aggregator.verb("label", "99", "future", ok=(1,))

        dry = json.loads(aggregator.verb("rollback", "--version", "release-1", "--dry-run", "--json"))
        check(dry["restored"] == 2 and dry["version"] == 5 and dry["distance"] > 0, f"the dry run reports {dry}")
        check(aggregator.json("status")["version"] == 5, "a dry run made a version")
        aggregator.verb("rollback", "--version", "release-1", ok=(2,))  # without --why
        wait_until("no round opened", lambda: aggregator.json("rounds")[-1]["state"] == "open")
        aggregator.verb("rollback", "--version", "release-1", "--why", "too bold", ok=(1,))  # a round is open
        dry = json.loads(aggregator.verb("rollback", "--version", "release-1", "--dry-run", "--json"))
        check(dry["refused_while_round_is_open"] and not dry["abandons_round"], f"the dry run promises {dry}")
        dry = aggregator.verb("rollback", "--version", "release-1", "--dry-run")
        check("would become the next version" in dry and "The order is refused while round 6 is open" in dry, dry)
        dry = json.loads(aggregator.verb("rollback", "--version", "release-1", "--dry-run", "--abandon-round", "--json"))
        check(dry["abandons_round"] and not dry["refused_while_round_is_open"], f"the dry run reports {dry}")

        aggregator.kill(signal.SIGKILL)
        cancel_order(aggregator)
        order = aggregator.verb("rollback", "--version", "release-1", "--why", "too bold", "--abandon-round")
        check("Round 6 is given up" in order and "here or on another machine, or the next one that starts" in order, order)
        aggregator.verb("rollback", "--version", "1", "--why", "twice", "--abandon-round", ok=(1,))
        aggregator.start()
        wait_until("no version was restored", lambda: aggregator.json("status")["version"] == 6)
        check(model(aggregator, "--version", "6", "--global") == kept, "version 6 is not version 2")
        again = ("rollback", "--version", "release-1", "--why", "again", "--abandon-round")
        refused = refusal(aggregator, *again, code=4)
        check("version 6, the newest, is version 2 restored" in refused, refused)
        row = [row for row in aggregator.json("rounds") if row["round"] == 7][0]
        check((row["mode"], row["restored"], row["reason"]) == ("restored", 2, "too bold"), f"round 7 is {row}")
        device.rounds(aggregator, 8)
        check(json.loads(aggregator.verb("verify", "--json"))["ok"], "verify found a difference")

        # Without what the client sent from round 3 on, version 2 and its restored copy are left.
        dry = json.loads(aggregator.verb("reject", "--client", "1", "--rounds", "3..99", "--dry-run", "--json"))
        check(dry["updates"] == 5 and dry["empty_rounds"] == 2 and dry["distance"] > 0, f"the dry run reports {dry}")
        aggregator.verb("reject", "--client", "1", "--rounds", "3..6", "--dry-run", ok=(4,))  # nothing of them is left
        aggregator.verb("reject", "--client", "1", "--rounds", "7", "--dry-run", ok=(4,))  # it sent nothing then
        aggregator.verb("reject", "--client", "1", "--rounds", "9..8", "--dry-run", ok=(2,))
        aggregator.verb("reject", "--client", "1", "--rounds", "3..99", "--why", "wrong labels", "--abandon-round")
        wait_until("no version was made", lambda: aggregator.json("status")["version"] == 9)
        check(model(aggregator, "--version", "9", "--global") == kept, "version 9 has updates that were rejected")
        aggregator.verb("reject", "--client", "1", "--rounds", "8..99", "--dry-run", ok=(4,))  # they are left out already
        aggregator.verb("reject", "--client", "1", "--rounds", "1..2", "--why", "all labels", "--abandon-round")
        wait_until("no version was made", lambda: aggregator.json("status")["version"] == 10)
        check(model(aggregator, "--version", "10", "--global") == model(aggregator, "--version", "0", "--global"),
              "version 10 has updates")
        # Round 7 made version 6, the last one without updates of round 8. After a rollback to it the older rounds do not matter.
        aggregator.verb("rollback", "--version", "6", "--why", "too much", "--abandon-round")
        wait_until("no version was restored", lambda: aggregator.json("status")["version"] == 11)
        device.rounds(aggregator, 12)
        dry = json.loads(aggregator.verb("reject", "--client", "1", "--rounds", "8..99", "--dry-run", "--json"))
        check(dry["updates"] == 3 and dry["distance"] > 0, f"the dry run reports {dry}")
        verified = aggregator.json("verify")
        check(verified["ok"] and verified["rejections"] == 2, f"verify reports {verified}")

        aggregator.verb("prune", "--keep", "1")
        verified = aggregator.verb("verify")
        check("Versions made by `reject`: 2, the last one is version 10. Only their recorded hashes" in verified, verified)
        check(model(aggregator, "--version", "release-1", "--global") == kept, "the label lost its weights")
        aggregator.verb("reject", "--client", "1", "--rounds", "8..99", "--dry-run", ok=(1,))
        aggregator.verb("rollback", "--version", "release-1", "--why", "again", "--abandon-round")
        wait_until("no version was restored", lambda: aggregator.json("status")["version"] >= 13)
        check(model(aggregator, "--version", "13", "--global") == kept, "version 13 is not version 2")
        device.rounds(aggregator, 14)
        newest = max(row["round"] for row in aggregator.json("rounds") if row["state"] == "committed")
        dry = json.loads(aggregator.verb("reject", "--client", "1", "--rounds", f"{newest}..99", "--dry-run", "--json"))
        check(dry["updates"] == 1 and dry["distance"] > 0, f"the dry run needs pruned rounds before the rollback: {dry}")
        aggregator.verb("label", "--remove", "release-1")
        aggregator.verb("label", "--remove", "release-1", ok=(1,))
        check(aggregator.json("label") == [], "a removed label is listed")

        changes = [(row["action"], row["subject"], row["before"], row["after"]) for row in aggregator.json("audit")]
        wanted = [("label", "label release-1", "", "2"),
                  ("rollback", "model, why: too early", "version 5", "ordered: weights of version 2"),
                  ("rollback --cancel", "model, why: too early", "ordered: weights of version 2", ""),
                  ("rollback", "model, why: too bold", "version 5", "ordered: weights of version 2"),
                  ("rollback", "model, why: too bold", "version 5", "restored in round 7"),
                  ("reject", "model, why: wrong labels", "version 8", "ordered: without client=1,rounds=3..99"),
                  ("label --remove", "label release-1", "2", "")]
        check([row for row in changes if row in wanted] == wanted, f"the audit log has {changes}")
        check(len([row for row in changes if row[0] in ("label", "rollback", "reject")]) == 12, f"the audit log has {changes}")
        print("2 rollbacks to a label, one after a kill, one after a prune; and 2 rejections")


def cancel_order(aggregator):
    """An order waits until a service runs. Meanwhile it is shown, and can be dropped."""
    check("order" not in aggregator.json("status"), "an order waits already")
    aggregator.verb("rollback", "--cancel", ok=(4,))
    aggregator.verb("rollback", "--version", "release-1", "--why", "too early", "--abandon-round")
    order = aggregator.json("status")["order"]
    check((order["verb"], order["what"], order["why"], order["ready"])
          == ("rollback", "ordered: weights of version 2", "too early", True), f"the status has {order}")
    check("(why: too early)" in aggregator.verb("status"), "the status shows no order")
    doctor = aggregator.verb("doctor", ok=(0, 1))
    check("a rollback waits, ordered: weights of version 2" in doctor, doctor)
    aggregator.verb("rollback", "--cancel", "--version", "1", ok=(2,))
    dry = json.loads(aggregator.verb("rollback", "--cancel", "--dry-run", "--json"))
    check(dry["what"] == order["what"] and aggregator.json("status")["order"] == order, f"the dry run reports {dry}")
    aggregator.verb("reject", "--cancel")  # either verb drops the only order
    check("order" not in aggregator.json("status"), "the order waits still")
    aggregator.verb("rollback", "--cancel", ok=(4,))


def reject_after_prune():
    """Without its rows a pruned round looks like one without other updates."""
    with Workspace() as workspace:
        aggregator, device = begin(workspace)
        device.rounds(aggregator, 3)
        aggregator.verb("prune", "--keep", "1")
        device.rounds(aggregator, 22)
        wait_until("the rows stay", lambda: has_dropped_rows(aggregator))
        refused = refusal(aggregator, "reject", "--client", "1", "--rounds", "20", "--dry-run")
        check("updates were pruned" in refused, refused)
        refused = refusal(aggregator, "export", "model.f32", "--version", "10", "--global")
        check("the updates of rounds 1 to 3 were pruned. Kept: 0 and 22." in refused, refused)


def best_version():
    """An evaluator rates versions; the best one outlives the prune, and can be named."""
    with Workspace() as workspace:
        aggregator, device = begin(workspace)
        device.rounds(aggregator, 1)
        for verb in (("export", "model.f32"), ("rollback", "--dry-run")):
            refused = refusal(aggregator, *verb, "--version", "best")
            check("no version is the best: at least half of the evaluators" in refused, refused)
        refused = refusal(aggregator, "label", "best", "release")
        check("no version is the best" in refused, refused)
        evaluator = Device(workspace, aggregator, "evaluator", "client.evaluator=yes")
        evaluator.verb("enroll", aggregator.join_code())
        device.rounds(aggregator, 3)
        for _ in range(3):
            evaluator.verb("once")
        wait_until("no version was rated", lambda: aggregator.json("label"))
        device.rounds(aggregator, 6)  # nobody rates these
        aggregator.kill(signal.SIGKILL)
        best = aggregator.json("label")[0]
        check(best["label"] == "best" and best["version"] in range(1, 4) and best["whole"], f"the best is {best}")
        before = model(aggregator, "--version", "best", "--global")
        with sqlite3.connect(f"{aggregator.state}/tern.db") as database:  # as in a database of before there was this label
            database.execute("delete from labels")
            database.execute("delete from weights where kind = 6")
        aggregator.verb("prune", "--keep", "1")
        check([row["label"] for row in aggregator.json("label")] == ["best"], "the prune labelled no version")
        check(model(aggregator, "--version", "best", "--global") == before, "another model is the best after the prune")
        check(model(aggregator, "--best") == before, "--best writes another model")
        for verb in (("export", "model.f32"), ("rollback", "--dry-run")):
            other = 1 if best["version"] != 1 else 2
            refused = refusal(aggregator, *verb, "--version", str(other))
            check(f"version {other} has no weights: the updates of rounds 1 to" in refused
                  and f"Kept: 0, {best['version']} (best) and 6. Choose one of these" in refused, refused)
        aggregator.verb("label", "best", "best", ok=(2,))
        aggregator.verb("label", "best", "release")
        aggregator.verb("rollback", "--version", "best", "--why", "the others are worse", "--abandon-round")
        aggregator.start()
        wait_until("no version was restored", lambda: aggregator.json("status")["version"] == 7)
        check(model(aggregator, "--version", "7", "--global") == before, "version 7 is not the best one")
        aggregator.verb("label", "--remove", "best")


def change_byte(aggregator):
    """Changes the lowest bit of a weight that a `reject` stored, with a checksum that fits."""
    with sqlite3.connect(aggregator.state / "tern.db") as database:
        (row, body), = database.execute("select rowid, body from weights where name like 'client=%'").fetchall()
        body = bytes([body[0] ^ 1]) + body[1:]
        database.execute("update weights set body = ?, crc32c = ? where rowid = ?", (body, crc32c(body), row))
    database.close()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def changed_byte():
    """The weights of a rejection change before the service restores them, so that their recorded hash fits."""
    with Workspace() as workspace:
        aggregator, device = begin(workspace)
        device.rounds(aggregator, 4)
        aggregator.kill()
        aggregator.verb("reject", "--client", "1", "--rounds", "3..4", "--why", "wrong labels", "--abandon-round")
        change_byte(aggregator)
        aggregator.start()
        wait_until("no version was made", lambda: aggregator.json("status")["version"] == 5)
        refused = refusal(aggregator, "verify")
        check("version 5: the rounds replayed without client=1,rounds=3..4 make another model" in refused, refused)
        # After a prune of earlier rounds there is the hash alone.
        device.rounds(aggregator, 8)
        aggregator.verb("prune", "--keep", "6")
        verified = aggregator.json("verify")
        check(verified["ok"] and verified["rejections_by_hash"] == 1 and verified["pruned_rounds"] > 0, f"{verified}")
        aggregator.kill()
        change_byte(aggregator)
        refused = refusal(aggregator, "verify")
        check("the weights that round 6 restored are missing, damaged or not those of version 5" in refused, refused)


def after_the_end():
    """The client ended with a model that a rollback undoes. It gets the restored one when it is started again."""
    with Workspace() as workspace:
        aggregator, device = begin(workspace, rounds=3)
        device.verb("run")
        wait_until("its last check-in is not stored", lambda: rollback_1(aggregator, "--dry-run", "--json").get("ended_clients"))
        dry = aggregator.verb("rollback", "--version", "1", "--dry-run")
        check("1 client ended with a model of an undone version, and does not check in again.\nStart them again" in dry, dry)
        refused = aggregator.verb("rollback", "--version", "1", "--dry-run", "--set", "downloads.final_model=none")
        check("Export the new version and deploy the file" in refused, refused)
        rollback_1(aggregator, "--why", "too bold", "--json")
        wait_until("no version was restored", lambda: aggregator.json("status")["version"] == 4)
        restored, _ = model(aggregator)
        check(restored == model(aggregator, "--version", "1", "--global")[0], "the restored version is another one")
        device.verb("run")
        kept = workspace.path / "kept.f32"
        device.verb("export", kept)
        check(hashlib.sha256(kept.read_bytes()).hexdigest() == restored, "the client holds another model than the restored one")


def rollback_1(aggregator, *options):
    return json.loads(aggregator.verb("rollback", "--version", "1", *options))


main(test)
