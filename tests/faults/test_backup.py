"""An older backup takes the database's place while clients go on. What the service acknowledged after the
backup is forgotten, and no more than that: with what those updates had, conservation holds. Rounds go on by
themselves, and the history replays.

A backup that dies while it is written leaves no file; a restore that dies leaves the old database or the new one.
"""

import contextlib
import itertools
import json
import pathlib
import shutil
import signal
import sqlite3

from faults import CLIENTS, NAMING_FAULTS, applied_by, book, check_client, federation, wait_until
from harness import BIN, LONG, PATIENCE, check, main, run

ROUNDS_AHEAD = 8
BACKUP = "tern.db.backup"


def wait_for_retries(fleet):
    """Waits, after the aggregator's end, until a request of each client got no answer. A client that had not read the
    reply to its update yet would otherwise read it later, and send nothing again."""
    logs = [fleet.workspace.path / f"{fleet.name}{index}.log" for index in range(CLIENTS)]
    sizes = [log.stat().st_size for log in logs]
    check(wait_until(lambda: all(b"got no answer" in log.read_bytes()[size:] for log, size in zip(logs, sizes)), PATIENCE),
          "a client does not retry")


def unanswered(fleet):
    """(client, sequence) of the updates that clients will send again."""
    wait_for_retries(fleet)
    pending = []
    for process in fleet.running:
        process.send_signal(signal.SIGSTOP)
    for index in range(CLIENTS):
        copy = fleet.workspace.path / f"copy{index}"
        shutil.copytree(fleet.directory(index), copy)
        client, sequence, size, _ = book("buffer", copy)
        if size > 0:
            pending.append((client, sequence))
    for process in fleet.running:
        process.send_signal(signal.SIGCONT)
    return pending


def die_while_a_backup_is_written(running):
    backup = running.aggregator.workspace.path / BACKUP
    running.aggregator.kill(signal.SIGTERM)  # so that the calls are the verb's
    running.control.arm("write-kill", 5, 5)
    run(*running.aggregator.prefix, BIN / "tern-aggregator", "backup", backup, "--config",
        running.aggregator.config, ok=(-signal.SIGKILL,))
    running.control.disarm()
    check(not backup.exists(), "half a backup is there")
    running.start()
    return backup


def version_of(state):
    """Returns the newest version of a state directory, after a replay of its rounds."""
    run(BIN / "tern-aggregator", "verify", "--state", state)
    return json.loads(run(BIN / "tern-aggregator", "status", "--json", "--state", state))["version"]


def die_while_it_is_restored(running, backup):
    """At each call that names or removes a file, and at some that write: the database is the old one or the
    restored one, whole, and the next try succeeds."""
    scratch = running.aggregator.workspace.path / "scratch"
    found = []
    for fault in (*NAMING_FAULTS, "sync-kill", "write-kill"):
        for at in itertools.count(1, 1 if fault in NAMING_FAULTS or LONG else 11):
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(running.aggregator.state, scratch)
            running.control.arm(fault, at, at)
            run(*running.aggregator.prefix, BIN / "tern-aggregator", "restore", backup, "--state",
                scratch, ok=(0, -signal.SIGKILL))
            died = running.control.failed > 0
            running.control.disarm()
            if not died:
                break
            found.append(version_of(scratch))
            restored = json.loads(run(BIN / "tern-aggregator", "restore", backup, "--json", "--state",
                                      scratch))["version"]
    before = version_of(running.aggregator.state)
    check(before > restored and set(found) <= {before, restored},
          f"{before} or {restored} were due, not {set(found)}")
    check(len(found) > 10, f"it was killed {len(found)} times only")
    print(f"killed {len(found)} times while it was restored")


def put_back(running, backup):
    """Returns the database that was there, without what clients send again."""
    running.aggregator.kill(signal.SIGKILL)
    pending = unanswered(running.fleet)
    die_while_it_is_restored(running, backup)
    restored = running.aggregator.json("restore", backup)
    old = pathlib.Path(restored["kept"])
    check(restored["versions_lost"] >= ROUNDS_AHEAD, f"it says {restored}")
    with contextlib.closing(sqlite3.connect(old)) as database, database:
        database.executemany("DELETE FROM updates WHERE client = ? AND sequence = ?", pending)
    running.start()
    return old


def test():
    with federation() as running:
        running.expect_progress("nothing", versions=3)
        backup = die_while_a_backup_is_written(running)
        running.expect_progress("a backup that died", versions=3)
        running.aggregator.verb("backup", backup)
        running.expect_progress("a backup", versions=ROUNDS_AHEAD)
        old = put_back(running, backup)
        running.expect_progress("a restored backup", versions=2 * ROUNDS_AHEAD)

        running.fleet.settle_all()
        running.aggregator.kill(signal.SIGTERM)
        running.aggregator.verb("verify")
        database = running.aggregator.state / "tern.db"
        forgotten = []
        for index in range(CLIENTS):
            had, kept = (applied_by(path, index + 1) for path in (old, backup))
            forgotten.append([a - b for a, b in zip(had, kept)])
            check_client(running.fleet, index, database, forgotten[index])
        lost = sum(map(sum, forgotten))
        print(f"changes of {lost:.1f} were forgotten, all others are accounted for")
        check(lost > ROUNDS_AHEAD, "too little was forgotten to prove anything")


main(test)
