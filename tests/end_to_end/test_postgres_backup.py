#!/usr/bin/python3
"""Backups of a federation in PostgreSQL, by the commands of docs/OPERATIONS.md, while clients train: the files and the
archived log, from which a cluster whose disk is lost comes back with all that was acknowledged before the archive's end;
and a dump, which goes into another database. The service and its clients go on from both."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "postgres"))
import cluster  # noqa: E402

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run, skip, wait_until  # noqa: E402

CLIENTS = 3
MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md"
SETTINGS = {
    "federation": {"model": "mlp:256-16-10", "seed": 3},
    "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "deadline": "10m", "rounds": 100000,
              "min_interval": "200ms", "come_back_min": "50ms", "come_back_max": "200ms"},
    "train": {"local_steps": 2, "batch_size": 4, "learning_rate": 0.05},
    "limits": {"requests_per_minute": 0},
}


def block(kind, begins):
    """What the manual says to type, or to write: the one block of that kind that begins so."""
    found = [text for text in re.findall(f"```{kind}\n(.*?)```", MANUAL.read_text(), re.S) if text.startswith(begins)]
    check(len(found) == 1, f"{len(found)} blocks of docs/OPERATIONS.md begin with {begins!r}")
    return found[0]


class Site:
    """Where the manual's paths are in this test."""

    def __init__(self, postgres):
        self.postgres = postgres
        self.backup = postgres.folder / "backup"
        for folder in (self.backup, self.backup / "wal"):
            folder.mkdir()
            shutil.chown(folder, *self.owner())
        self.data = postgres.data

    def owner(self):
        status = self.postgres.folder.stat()
        return status.st_uid, status.st_gid

    def here(self, text):
        for shown, instead in (("/backup", self.backup), ("/var/lib/postgresql/15/main", self.data),
                               ("/run/postgresql", self.postgres.folder), ("createdb -O tern-aggregator", "createdb -O tern")):
            text = text.replace(shown, str(instead))
        return text

    def type(self, script):
        """As the user of the cluster."""
        environment = dict(self.postgres.environment, PGUSER="tern", PGHOST=str(self.postgres.folder),
                           PATH=f"{self.postgres.programs}:{BIN.resolve()}:{os.environ['PATH']}")
        done = subprocess.run(["setpriv", *self.postgres.user, "sh", "-ec", self.here(script)], cwd=self.backup,
                              env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        check(done.returncode == 0, f"{script}\nexited {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def configure(self, settings):
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(self.here(settings))
        self.postgres.stop()
        self.postgres.start()


def of_client(workspace, aggregator, number):
    return [part for one in (
        f"client.server={aggregator.url}", f"client.ca={aggregator.ca}", "client.wait=1s", "client.retry_min=100ms",
        "client.retry_max=1s", f"client.state_dir={workspace.path}/client{number}",
        f"data.source=digits:train=60,test=20,size=16,seed={number + 1}") for part in ("--set", one)]


def committed(aggregator):
    return sum(row["state"] == "committed" for row in aggregator.json("rounds"))


def acknowledged(workspace):
    return {(number + 1, int(round)) for number in range(CLIENTS) for round in re.findall(
        r"round=(\d+) .*answer=accepted", (workspace.path / f"client{number}.log").read_text())}


def stored(postgres):
    return {tuple(map(int, line.split("|"))) for line in postgres.sql("SELECT client, round FROM updates").splitlines()}


def go_on(aggregator, what, rounds=3):
    before = committed(aggregator)
    wait_until(f"no round ends {what}", lambda: committed(aggregator) >= before + rounds)


def lose_disk(site, aggregator, workspace):
    """What was acknowledged by the end of the archive, and the rounds that were committed by then."""
    known = acknowledged(workspace)
    rounds = committed(aggregator)
    last = site.postgres.sql("SELECT pg_walfile_name(pg_switch_wal())")
    wait_until(f"{last} is not archived", (site.backup / "wal" / last).exists)
    wait_until("it is archived by half", lambda: site.postgres.sql(
        f"SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver") == "t")
    go_on(aggregator, "behind the archive's end", 1)
    aggregator.kill()
    site.postgres.stop(signal.SIGQUIT)
    shutil.rmtree(site.data)
    return known, rounds


def come_back(site, aggregator):
    site.type(block("sh", "rm -rf /var/lib/postgresql"))
    site.postgres.start()
    wait_until("the recovery does not end", lambda: site.postgres.sql("SELECT pg_is_in_recovery()") == "f")
    aggregator.verb("verify")
    aggregator.start()


def dump(site, aggregator, workspace):
    """Into a database beside, while clients train; the service then goes on there."""
    known = acknowledged(workspace)
    before, between, after = block("sh", "pg_dump ").partition("createdb")
    verify = [line for line in after.splitlines() if line.startswith("tern-aggregator verify")]
    check(len(verify) == 1, "the manual does not verify what it restored")
    go_on(aggregator, "before the dump", 1)
    site.type(before)
    aggregator.kill(signal.SIGTERM)
    site.type((between + after).replace(verify[0], ""))
    url = re.search("store.url=([^']*)", verify[0]).group(1)
    url = site.here(url).replace("postgresql:///", "postgresql://tern@/")
    aggregator.verb("verify", "--set", f"store.url={url}")
    rows = {tuple(map(int, line.split("|")))
            for line in site.postgres.sql("SELECT client, round FROM updates", database="tern2").splitlines()}
    check(known <= rows, f"{known - rows} was acknowledged before the dump, and is not in it")
    aggregator.settings["store"]["url"] = url
    aggregator.write_config()
    aggregator.start()
    go_on(aggregator, "from a restored dump")


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        site = Site(postgres)
        site.configure(block("ini", "archive_mode = on"))
        aggregator = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url()}}).start()
        code = aggregator.join_code(CLIENTS)
        for number in range(CLIENTS):
            run(BIN / "tern-client", "enroll", code, *of_client(workspace, aggregator, number))
        clients = [workspace.start(BIN / "tern-client", "run", *of_client(workspace, aggregator, number),
                                   log=f"client{number}") for number in range(CLIENTS)]
        go_on(aggregator, "at all")
        site.type(block("sh", "pg_basebackup "))
        go_on(aggregator, "behind the base backup")
        known, rounds = lose_disk(site, aggregator, workspace)
        check(len(known) > 3 * CLIENTS, f"only {known} was acknowledged")
        come_back(site, aggregator)
        check(known <= stored(postgres), f"{known - stored(postgres)} was acknowledged before the archive's end, and is lost")
        check(committed(aggregator) >= rounds, f"of {rounds} rounds {committed(aggregator)} are there")
        go_on(aggregator, "from the archive")
        dump(site, aggregator, workspace)
        check(all(client.poll() is None for client in clients), "a client has given up")
        for client in clients:
            client.terminate()
            client.wait(timeout=PATIENCE)
        aggregator.verb("verify")
        print(f"{len(known)} acknowledged updates came back")


main(test)
