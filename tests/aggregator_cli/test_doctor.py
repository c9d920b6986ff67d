"""`doctor` finds what is wrong, says what to do about it, and changes nothing."""
import json
import os
import pathlib
import pwd
import shutil
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import harness  # noqa: E402
from cli import BIN, State  # noqa: E402
from harness import check  # noqa: E402

GOOD, WARNING, PROBLEM = "good", "warning", "problem"

def findings(out, area, health=None):
    return [entry for entry in json.loads(out) if entry["area"] == area and health in (None, entry["health"])]

def finds(out, area, health, words, advice=""):
    """That there is such a finding, and that it says what to do unless it is good."""
    found = findings(out, area, health)
    check(any(words in entry["finding"] and advice in (entry["advice"] or "") for entry in found),
          f"no {health} of {area} says {words!r} and {advice!r}: {findings(out, area)}")
    check(all((entry["advice"] is None) == (health == GOOD) for entry in found), f"advice: {found}")

def doctor(state, *options, code=1, prefix=()):
    done = subprocess.run([*prefix, BIN / "tern-aggregator", "doctor", "--json", "--state", state.path, *options],
                          capture_output=True, text=True, timeout=150, check=False)
    check(done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout

def make_certificate(state, days, extension=("-addext", "subjectAltName=DNS:tern.example,IP:192.0.2.1,IP:2001:db8::1")):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=tern.example", "-days", str(days), *extension, "-keyout", state.path / "server.key",
                    "-out", state.path / "server.crt"], check=True, capture_output=True)

def a_service_that_is_well():
    with harness.Workspace() as workspace:
        aggregator = harness.Aggregator(workspace, {"federation": {"model": "softmax:8-2"},
                                                    "limits": {"connections": 100, "unfinished": 1}}).start()
        out = aggregator.verb("doctor", "--json")  # with exit code 0
        for area in ("settings", "state", "service", "limits", "database", "clock"):
            check({entry["health"] for entry in findings(out, area)} == {GOOD}, f"{area}: {findings(out, area)}")
        finds(out, "service", GOOD, f"process {aggregator.process.pid}, and can store updates")
        finds(out, "rounds", WARNING, "waiting for 2 more clients that train: round.min_clients = 2", "enroll-code --uses 2")
        finds(out, "certificate", GOOD, "localhost, 127.0.0.1")
        finds(out, "certificate", WARNING, "expires in", "SIGHUP")  # within two days
        log = (workspace.path / "aggregator.log").read_text()
        check("event=disk-small" not in log, "serve warns of a large disk")
        text = aggregator.verb("doctor")
        check("What to do: " in text and "0 problems, " in text, text)

def a_state_that_is_not_served():
    state = State(rounds=2)
    database = (state.path / "tern.db").read_bytes()
    out = doctor(state)
    finds(out, "service", PROBLEM, "the service is not running", "tern-aggregator serve")
    finds(out, "certificate", PROBLEM, "cannot be read", "server.certificate")
    finds(doctor(state, prefix=("prlimit", "--nofile=100:100")), "limits", WARNING, "can open 100 files", "LimitNOFILE")
    finds(doctor(state, "--set", "limits.history_bytes=0"), "database", WARNING, "growing by", "limits.history_bytes")
    check(findings(out, "disk", WARNING) == [], f"a warning of a large disk: {out}")
    small = doctor(state, "--set", "limits.history_bytes=900T", "--set", "round.rounds=0")
    finds(small, "disk", WARNING, "this federation needs about", "limits.history_bytes")
    finds(doctor(state, "--set", "train.learning_rate=cosine", "--set", "round.rounds=0"), "settings", PROBLEM, "serve` refuses the settings")
    (state.path / "admin.token").chmod(0o644)
    finds(doctor(state), "state", WARNING, "its mode is 0644", "chmod go= ")
    check((state.path / "tern.db").read_bytes() == database, "the database was changed")
    shutil.rmtree(state.path)
    finds(doctor(state), "state", PROBLEM, "there is no federation in", "tern-aggregator init")

def a_disk_that_is_small_for_its_federation():
    with harness.Workspace() as workspace:
        aggregator = harness.Aggregator(workspace, {
            "federation": {"model": "softmax:8-2"},
            "limits": {"connections": 100, "unfinished": 1, "history_bytes": "900T"}}).start()
        log = (workspace.path / "aggregator.log").read_text()
        check("event=disk-small" in log and "this federation needs about" in log, f"serve gives no warning: {log}")
        finds(aggregator.verb("doctor", "--json"), "disk", WARNING, "this federation needs about", "limits.history_bytes")

def certificates():
    state = State(rounds=1)
    make_certificate(state, 100)
    out = doctor(state)
    finds(out, "certificate", GOOD, "expires in")
    finds(out, "certificate", GOOD, "tern.example, 192.0.2.1, 2001:db8::1")
    old = (state.path / "server.key").read_bytes()
    make_certificate(state, 100, extension=())
    finds(doctor(state), "certificate", PROBLEM, "has no subjectAltName", "subjectAltName")
    (state.path / "server.key").write_bytes(old)
    finds(doctor(state), "certificate", PROBLEM, "does not belong to the certificate")

def keys_of_tickets():
    state = State(rounds=1)
    keys = state.path / "ticket.keys"
    assert "ticket key file" not in json.dumps(doctor(state))
    check(not keys.exists(), "doctor made keys")
    keys.write_bytes(b"ternkey1")
    keys.chmod(0o600)
    finds(doctor(state), "state", PROBLEM, "serve` would not start: ticket key file", "delete the file")
    check(keys.read_bytes() == b"ternkey1", "doctor changed the keys")
    keys.write_bytes(b"ternkey1" + bytes(44))
    assert "ticket key file" not in json.dumps(doctor(state))
    keys.chmod(0o644)
    finds(doctor(state), "state", PROBLEM, "may be read by other users")

def clients_of_other_columns():
    """Named by doctor, status and clients, as long as most have other names of columns."""
    state = State(rounds=2)
    with sqlite3.connect(state.path / "tern.db") as database:
        ids = [row[0] for row in database.execute("SELECT id FROM clients WHERE revoked = 0 ORDER BY id")]
        check(len(ids) >= 3, f"{len(ids)} clients")
        database.execute("UPDATE clients SET column_names = 7")
    database.close()
    check(findings(doctor(state), "columns") == [], "all have the same")
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE clients SET column_names = 9 WHERE id = ?", [ids[0]])
    database.close()
    finds(doctor(state), "columns", WARNING, f"client {ids[0]} (", "the same columns in the same order")
    check(state.json("status")["other_column_names"] == [ids[0]], "status")
    said = state.run("status").out.decode()
    check(f"WARNING: client {ids[0]} (" in said and f"than {len(ids) - 1} clients" in said, said)
    listed = state.run("clients").out.decode().splitlines()
    check(["other-columns" in line for line in listed if line.split()[0] == str(ids[0])] == [True], listed)
    check("".join(listed).count("other-columns") == 1, listed)

def databases():
    state = State(rounds=5)
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE versions SET created_ms = ?", [int(time.time() * 1000) + 7200_000])
    database.close()
    finds(doctor(state), "clock", WARNING, "behind the last round", "timedatectl")
    with open(state.path / "tern.db", "r+b") as file:
        file.seek(-3 * 4096, os.SEEK_END)
        file.write(b"\xff" * 8192)
    finds(doctor(state), "database", PROBLEM, "", "restore a backup")

def files_of_another_user():
    if os.geteuid() != 0:
        return
    state = State(rounds=1)
    os.chown(state.path / "tern.db", pwd.getpwnam("nobody").pw_uid, -1)
    before = sorted(path.name for path in state.path.iterdir())
    finds(doctor(state), "state", PROBLEM, "belongs to nobody",
          f"runuser -u nobody -- tern-aggregator doctor --state {state.path}")
    check(sorted(path.name for path in state.path.iterdir()) == before, "files were made")

def test():
    a_service_that_is_well()
    a_state_that_is_not_served()
    a_disk_that_is_small_for_its_federation()
    certificates()
    keys_of_tickets()
    clients_of_other_columns()
    databases()
    files_of_another_user()

harness.main(test)
