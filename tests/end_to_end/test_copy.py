#!/usr/bin/python3
"""`copy` takes a federation from SQLite into PostgreSQL and back, each time in the middle of a round: clients go on, and
the model is, bit for bit, that of the same federation which stayed where it was. Where it is killed, where its connection
ends, where the disk is full, or what it wrote is read otherwise, there is no copy; where somebody serves, or something is
there already, it is refused by name."""

import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "postgres"))
import cluster  # noqa: E402

from harness import BIN, HELPERS, LONG, PATIENCE, Aggregator, Workspace, check, main, run, skip, wait_until  # noqa: E402

CLIENTS = 3
ROUNDS = 7
CUTS = 4 if LONG else 2  # of each way
SETTINGS = {
    "federation": {"model": "mlp:256-16-10", "seed": 3},
    "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "deadline": "10m", "rounds": ROUNDS,
              "min_interval": "1s", "come_back_min": "50ms", "come_back_max": "200ms"},
    "train": {"local_steps": 2, "batch_size": 4, "learning_rate": 0.05},
    "limits": {"requests_per_minute": 0},
}

def tern(*arguments):
    return subprocess.run([BIN / "tern-aggregator", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)

def refused(says, *arguments, code=1):
    done = tern("copy", *arguments)
    check(done.returncode == code, f"copy {arguments} exited {done.returncode}: {done.stdout}{done.stderr}")
    check(says in done.stderr, f"{done.stderr!r} does not say {says!r}")
    check("nothing was copied" in done.stderr or "stop" in done.stderr or "install" in done.stderr, done.stderr)

# --- A federation that moves

def of_client(workspace, aggregator, number):
    return [part for one in (
        f"client.server={aggregator.url}", f"client.ca={aggregator.ca}", "client.wait=1s", "client.retry_min=100ms",
        "client.retry_max=1s", f"client.state_dir={workspace.path}/client{number}",
        f"data.source=digits:train=60,test=20,size=16,seed={number + 1}") for part in ("--set", one)]

def begin(workspace):
    """Its clients are enrolled; of two more one is revoked, and one has a tag and never comes."""
    aggregator = Aggregator(workspace, SETTINGS).start()
    code = aggregator.join_code(CLIENTS)
    for number in range(CLIENTS):
        run(BIN / "tern-client", "enroll", code, *of_client(workspace, aggregator, number))
    aggregator.verb("provision", "--name", "gone")
    aggregator.verb("provision", "--name", "evaluates", "--evaluator", "--tag", "site=north")
    aggregator.verb("revoke", str(CLIENTS + 1))
    aggregator.verb("enroll-code", "--uses", "5", "--label", "left over")
    return aggregator

def start_client(workspace, aggregator, number):
    return workspace.start(BIN / "tern-client", "run", *of_client(workspace, aggregator, number), log=f"client{number}")

def end(client):
    client.terminate()
    client.wait(timeout=PATIENCE)

def committed(aggregator):
    return sum(row["state"] == "committed" for row in aggregator.json("rounds"))

def finish(workspace, aggregator, clients):
    wait_until("the rounds do not end", lambda: committed(aggregator) == ROUNDS)
    for client in clients:
        end(client)
    return re.search("Model SHA-256 ([0-9a-f]{64})", aggregator.verb("verify")).group(1)

def stays():
    with Workspace() as workspace:
        aggregator = begin(workspace)
        return finish(workspace, aggregator, [start_client(workspace, aggregator, number) for number in range(CLIENTS)])

def updates_of_open_round(aggregator, postgres):
    """As stored."""
    sql = "SELECT count(*) FROM updates JOIN rounds USING (round) WHERE state = 0"
    if aggregator.settings["store"]["url"]:
        return int(postgres.sql(sql))
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True, timeout=30) as database:
        (count,) = database.execute(sql).fetchone()
    database.close()
    return count

def take_part(workspace, aggregator):
    """The last client takes part in at most one round. However late this process looks, no round ends without it."""
    subprocess.run([BIN / "tern-client", "once", *of_client(workspace, aggregator, CLIENTS - 1)], capture_output=True,
                   timeout=PATIENCE, check=False)
    return False

def move(workspace, aggregator, postgres, target, least, meanwhile):
    """In the middle of a round, of which one update is missing; meanwhile() while it is still served."""
    wait_until("no round ends", lambda: committed(aggregator) >= least or take_part(workspace, aggregator))
    wait_until("the round does not wait", lambda: updates_of_open_round(aggregator, postgres) == CLIENTS - 1)
    refused(f"is served by another process {aggregator.process.pid}: stop that process", target, "--config", aggregator.config)
    meanwhile()
    aggregator.kill(signal.SIGTERM)
    before = aggregator.json("status")
    copied = json.loads(aggregator.verb("copy", target, "--json"))
    rows = {table["name"]: table["rows"] for table in copied["tables"]}
    check(rows["clients"] == CLIENTS + 2 and rows["codes"] >= 1 and rows["replicas"] > 0 and rows["updates"] > 3, str(rows))
    check(rows["update_bodies"] == rows["updates"] and rows["schedule"] > 0 and rows["ledger"] == CLIENTS, str(rows))
    stays_away(aggregator, target)
    return before, copied

def stays_away(aggregator, target):
    """What was copied is not served, nor copied again, until that is taken back."""
    served = tern("serve", "--config", aggregator.config)
    check(served.returncode == 2 and f"was copied to {target} (20" in served.stderr and "copy --forget" in served.stderr,
          f"what was copied is served: {served.returncode} {served.stderr}")
    refused("was copied to", target, "--config", aggregator.config, code=2)
    doctor = tern("doctor", "--config", aggregator.config)
    check(f"the database was copied to {target}" in doctor.stdout, doctor.stdout)
    coded = tern("enroll-code", "--config", aggregator.config)
    check(coded.returncode == 2 and "nothing was changed" in coded.stderr, f"{coded.returncode} {coded.stdout} {coded.stderr}")
    aggregator.verb("copy", "--forget")
    refused(" already", target, "--config", aggregator.config)

def go_on(aggregator, before):
    aggregator.write_config()
    after = aggregator.json("status")
    for key in ("version", "round", "clients", "updates", "model"):
        check(before.get(key) == after.get(key), f"{key} is {after.get(key)}, and was {before.get(key)}")
    people = aggregator.json("clients")
    check(people[CLIENTS]["revoked"] and people[CLIENTS + 1]["tags"] == "site=north", str(people))
    aggregator.start()

def moves(postgres):
    with Workspace() as workspace:
        aggregator = begin(workspace)
        aggregator.settings["store"] = {"url": ""}
        clients = [start_client(workspace, aggregator, number) for number in range(CLIENTS - 1)]
        before, out = move(workspace, aggregator, postgres, postgres.url(), 2, lambda: None)
        other = postgres.url("&options=-csearch_path%3Dother")
        postgres.sql("CREATE SCHEMA other")
        aggregator.verb("copy", other)
        aggregator.settings["store"]["url"] = postgres.url("&application_name=one")
        go_on(aggregator, before)
        elsewhere = workspace.path / "elsewhere"
        os.mkdir(elsewhere)

        def from_elsewhere():
            refused("is served by one", elsewhere / "tern.db", "--config", aggregator.config, "--state", elsewhere)
            refused("has a federation already, served by one", postgres.url(), "--state", elsewhere, "--set", f"store.url={other}")
        before, back = move(workspace, aggregator, postgres, elsewhere / "tern.db", 4, from_elsewhere)
        check(back["model_sha256"] != out["model_sha256"], "no version was made between the copies")
        check(postgres.sql("SELECT version FROM schema_version") != "", "what was copied is gone")
        aggregator.settings["store"]["url"] = ""
        aggregator.settings["federation"]["state"] = aggregator.state = elsewhere
        go_on(aggregator, before)
        clients.append(start_client(workspace, aggregator, CLIENTS - 1))
        model = finish(workspace, aggregator, clients)
        added = aggregator.json("provision", "--name", "later")
        check(added["client"] == CLIENTS + 3, f"ids do not go on: {added}")
        return model

# --- What leaves no copy

class Sources:
    """The same federation in SQLite and in PostgreSQL."""

    def __init__(self, workspace, postgres):
        self.postgres = postgres
        self.state = workspace.path / "source"
        self.file = workspace.path / "target.db"
        self.schemas = 0
        run(BIN / "tern-aggregator", "init", "--state", self.state, "--model", "mlp:784-64-10", "--seed", "7")
        run(HELPERS / "make_federation", self.state / "tern.db", 30)
        self.url = self.new_url()
        run(BIN / "tern-aggregator", "copy", self.url, "--state", self.state)
        run(BIN / "tern-aggregator", "copy", "--forget", "--state", self.state)

    def new_url(self):
        """Returns the address of a new schema without tables."""
        self.schemas += 1
        self.schema = f"s{self.schemas}"
        self.postgres.sql(f"CREATE SCHEMA {self.schema}")
        return self.postgres.url(f"&options=-csearch_path%3D{self.schema}")

    def ways(self):
        """Source and target, and whether that has come to be there; it is taken away."""
        return ((("--state", self.state), self.new_url(), self.schema_is_there),
                (("--state", self.state, "--set", f"store.url={self.url}"), self.file, self.file_is_there))

    def schema_is_there(self):
        tables = self.postgres.sql(f"SELECT count(*) FROM pg_class WHERE relnamespace = '{self.schema}'::regnamespace")
        if tables != "0":
            whole = tern("verify", "--state", self.state, "--set",
                         f"store.url={self.postgres.url(f'&options=-csearch_path%3D{self.schema}')}")
            check(whole.returncode == 0, f"{tables} tables are half a copy: {whole.stderr}")
            self.postgres.sql(f"DROP SCHEMA {self.schema} CASCADE; CREATE SCHEMA {self.schema}")
        return tables != "0"

    def file_is_there(self):
        there = self.file.exists()
        if there:
            place = self.file.parent / "look"
            place.mkdir(exist_ok=True)
            self.file.rename(place / "tern.db")
            whole = tern("verify", "--state", place)
            check(whole.returncode == 0, f"half a copy: {whole.stderr}")
            (place / "tern.db").unlink()
        for left in self.file.parent.glob("target.db.new-*"):
            left.unlink()
        return there

def start(source, target):
    check(tern("copy", "--forget", *source).returncode == 0, f"{source} is not what it was")
    return subprocess.Popen([BIN / "tern-aggregator", "copy", *map(str, source), str(target)], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)

def time_of_a_copy(source, target, is_there):
    began = time.monotonic()
    check(start(source, target).wait(timeout=PATIENCE) == 0, "there is no copy")
    took = time.monotonic() - began
    check(is_there(), "there is no copy")
    return took

def killed(sources, rng):
    for source, target, is_there in sources.ways():
        took = time_of_a_copy(source, target, is_there)
        early = 0
        for _ in range(12 if LONG else 5):
            copying = start(source, target)
            time.sleep(rng.uniform(0, took))
            copying.kill()
            copying.communicate(timeout=PATIENCE)
            if copying.returncode == -signal.SIGKILL:
                wait_until("PostgreSQL goes on with it", lambda: sources.postgres.sql(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'tern-aggregator%'") == "0")
            if is_there():
                took /= 2  # other work made the first copy slow
            else:
                early += 1
        check(early > 0, "no kill came before the end")

def disconnected(sources, rng):
    """PostgreSQL ends the connection, as by a restart, while rows go in or come out."""
    for source, target, is_there in sources.ways():
        cut = 0
        took = time_of_a_copy(source, target, is_there)
        for _ in range(200):
            copying = start(source, target)
            time.sleep(rng.uniform(0.02, took))
            cut_now = sources.postgres.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name"
                                           " LIKE 'tern-aggregator%' AND xact_start IS NOT NULL") != "0"
            said, _ = copying.communicate(timeout=PATIENCE)
            if is_there():
                check(copying.returncode == 0 or "the copy is complete" in said, f"a copy is there after: {said}")
            elif cut_now:
                check(copying.returncode == 1 and "PostgreSQL: " in said, f"{copying.returncode}: {said}")
                cut += "nothing was copied" in said  # else it ended before the copy began, while a database was opened
            if cut == CUTS:
                break
        check(cut == CUTS, f"the connection was cut {cut} times")

def altered(sources):
    """A server that stores another name than it was given."""
    source, target, is_there = sources.ways()[0]
    check(tern("copy", "--forget", *source).returncode == 0, f"{source} is not what it was")
    sources.postgres.sql(f"""
        CREATE FUNCTION public.alter_name() RETURNS trigger LANGUAGE plpgsql AS
          $$BEGIN NEW.name := NEW.name || '?'; RETURN NEW; END$$;
        CREATE FUNCTION public.alter_names() RETURNS event_trigger LANGUAGE plpgsql AS
          $$BEGIN CREATE TRIGGER altered BEFORE INSERT ON {sources.schema}.clients FOR EACH ROW WHEN (NEW.id = 2)
            EXECUTE FUNCTION public.alter_name(); EXCEPTION WHEN OTHERS THEN NULL; END$$;
        CREATE EVENT TRIGGER altering ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
          EXECUTE FUNCTION public.alter_names();""")
    refused("rows of clients that were written are not the", target, *source)
    check(not is_there(), "it is there nevertheless")
    sources.postgres.sql("DROP EVENT TRIGGER altering; DROP FUNCTION public.alter_names, public.alter_name CASCADE")

def full(sources):
    """A disk that takes the schema and some of the rows."""
    disk = sources.file.parent / "disk"
    disk.mkdir()
    for size in ("200k", "900k", "3m"):
        done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c",
                               f'mount -t tmpfs -o size={size} none {disk} || exit 77; "$@"; code=$?; ls -A {disk};'
                               " exit $code", "sh", BIN / "tern-aggregator", "copy", disk / "tern.db", "--state",
                               sources.state], capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode == 77:
            print("there is no small disk here: it cannot be mounted")
            return
        check(done.returncode == 1 and "the disk is full" in done.stderr and "nothing was copied" in done.stderr,
              f"{size}: {done.returncode} {done.stdout}{done.stderr}")
        check(done.stdout == "", f"{size}: {done.stdout} is left")

def of_other_versions(sources):
    for version in (0, 900):
        sources.postgres.sql(f"UPDATE s1.schema_version SET version = {version}")
        refused(f"the database has version {version}, this program supports 1", sources.file, "--state", sources.state, "--set",
                f"store.url={sources.url}")
        with sqlite3.connect(sources.state / "tern.db") as database:
            database.execute(f"PRAGMA user_version = {version}")
        database.close()
        refused(f"the database has version {version}, this program supports 1", sources.file, "--state", sources.state)
    sources.postgres.sql("UPDATE s1.schema_version SET version = 1")
    with sqlite3.connect(sources.state / "tern.db") as database:
        database.execute("PRAGMA user_version = 1")
    database.close()
    check(not sources.file.exists(), "there is a copy")

def beside_others(sources):
    url = sources.new_url()
    sources.postgres.sql(f"CREATE TABLE {sources.schema}.orders (number INTEGER)")
    refused("the schema holds tables of another program", url, "--state", sources.state)
    sources.file.write_text("something else")
    refused("is there already", sources.file, "--state", sources.state)
    check(sources.file.read_text() == "something else", "it was written over")
    sources.file.unlink()
    refused("has a password", "postgresql://tern:secret@localhost/tern", "--state", sources.state, code=2)

def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        rng = random.Random(seed)
        sources = Sources(workspace, postgres)
        of_other_versions(sources)
        beside_others(sources)
        full(sources)
        altered(sources)
        killed(sources, rng)
        disconnected(sources, rng)
    with cluster.Cluster() as postgres:
        model = moves(postgres)
    expected = stays()
    check(model == expected, f"the model is {model}, and {expected} where it stayed")

main(test)
