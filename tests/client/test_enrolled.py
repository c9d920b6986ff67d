"""tern-client on the command line against a real aggregator: what enrolling keeps, what the verbs
print as JSON, and which exit code says what."""
import calendar
import contextlib
import fcntl
import json
import pathlib
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main


class Client:
    def __init__(self, workspace, aggregator):
        self.state = workspace.path / "client"
        self.options = ["--set", f"client.server={aggregator.url}",
                        "--set", f"client.ca={aggregator.ca}",
                        "--set", f"client.state_dir={self.state}",
                        "--set", "data.source=digits:train=200,test=50,size=16",
                        "--set", "client.wait=0"]

    def attempt(self, *arguments):
        return subprocess.run([BIN / "tern-client", *arguments[:1], *self.options, *arguments[1:]],
                              capture_output=True, text=True, timeout=PATIENCE)

    def run(self, *arguments, code=0, says=""):
        done = self.attempt(*arguments)
        shown = " ".join(arguments)
        check(done.returncode == code,
              f"{shown}: exit {done.returncode}, not {code}: {done.stderr}")
        check(says in done.stderr, f"{shown} does not say {says!r}: {done.stderr}")
        return done.stdout

    def json(self, *arguments, code=0):
        return json.loads(self.run(*arguments, "--json", code=code))

    def handshake(self):
        meter = self.json("meter")
        return meter["up"]["handshake"]["tls"] + meter["down"]["handshake"]["tls"]

    def wire(self):
        meter = self.json("meter")
        return meter["up"]["total"]["wire"] + meter["down"]["total"]["wire"], meter["month"]["wire"]


def enrolling_again_keeps_the_meter(client, aggregator):
    first = client.json("enroll", aggregator.join_code())
    check(first == {"client": 1, "model": "mlp:256-16-10", "evaluator": False}, f"said {first}")
    wire, month = client.wire()
    check(wire > 1000 and month == wire, f"{wire} bytes, {month} this month")
    check(client.handshake() <= 1000, f"a full handshake takes {client.handshake()} bytes")
    client.run("enroll", "CODE", code=2, says="--force")
    check(client.wire() == (wire, month), "a refusal without a byte changed the meter")
    second = client.json("enroll", "--force", aggregator.join_code())
    check(second["client"] == 2, f"said {second}")
    after, month_after = client.wire()
    check(after > wire + 1000, f"the meter went from {wire} to {after} bytes")
    check(month_after == after, f"the month went from {month} to {month_after} bytes")


def a_factory_writes_the_identity(workspace, aggregator):
    client = Client(workspace, aggregator)
    client.state = workspace.path / "provisioned"
    client.options += ["--set", f"client.state_dir={client.state}"]
    facts = aggregator.json("provision", "--name", "valve")
    path = workspace.path / "valve.json"
    for broken in ("", "[]", "{}", json.dumps(facts | {"token": "short"}),
                   json.dumps(facts | {"client": 0}), json.dumps(facts | {"model_hash": "00"}),
                   json.dumps(facts | {"seed": -1}), " " * 5000,
                   json.dumps(facts | {"evaluator": "no"}), json.dumps(facts) * 2,
                   json.dumps(facts) + "\n\0"):
        path.write_text(broken)
        client.run("enroll", "--provisioned", str(path), code=2, says="provision --json")
    path.write_text(json.dumps(facts | {"model_hash": "00" * 32}))
    client.run("enroll", "--provisioned", str(path), code=3, says="model")
    client.run("enroll", "--provisioned", str(path) + ".not", code=2, says="cannot be read")
    path.write_text(json.dumps(facts) + "\r\n\n")
    said = client.json("enroll", "--provisioned", str(path))
    check(said["client"] == facts["client"], f"said {said}")
    client.run("enroll", "--provisioned", str(path), code=2, says="--force")
    client.run("meter", code=1, says="has sent nothing")
    said = client.json("once", code=4)  # the aggregator knows it
    check(said["ended_by"] == "waiting" and client.wire()[0] > 0, f"said {said}")


def a_wrong_setting_is_a_usage_error(client):
    for source in ("idx:/nonexistent", "fish:1", "digits:train=200,test=50,size=28"):
        client.run("once", "--set", f"data.source={source}", code=2, says="data.source")
    client.run("once", "--set", "data.shard=1/999", code=2, says="shared among 999 clients")


def a_local_lock_is_no_refusal(client):
    with open(client.state / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        client.run("once", code=1, says="in use by another process")


def once_says_what_it_came_to(client):
    client.run("run", "--json", code=2, says="--json")
    said = json.loads(client.run("once", "--json", says="event=certificate-expires"))
    check(said["ended_by"] == "uploaded" and said["answer"] == "accepted" and said["round"] == 1,
          f"said {said}")
    check(said["round_wire_bytes"] > said["bytes"] > 0, f"said {said}")
    client.run("once", "--set", "client.log_format=yaml", code=2, says="allowed: text | json")
    client.run("once", "--set", "client.log_format=json", code=4, says='Z","level":"info","event":"started","client":')
    said = client.json("once", code=4)  # the first identity has not sent its part
    check(said["ended_by"] == "waiting" and said["why"], f"said {said}")


def the_end_of_certificates_is_told(client, aggregator):
    """The harness makes both for two days, and the client knows them of its last full handshake."""
    def end_of(name):
        shown = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-dateopt", "iso_8601", "-in", name],
                               cwd=aggregator.workspace.path, capture_output=True, text=True, check=True).stdout
        return calendar.timegm(time.strptime(shown.strip(), "notAfter=%Y-%m-%d %H:%M:%SZ"))

    known = client.json("status")
    check(known["certificate_expires_s"] == end_of("server.crt"), f"status says {known}")
    check(known["ca_expires_s"] == end_of("ca.crt"), f"status says {known}")
    shown = client.run("status")
    check(re.search("certificate expires in [12] d, its CA's expires in [12] d", shown), shown)
    rows = {row["area"]: row for row in client.json("check")}
    check(rows["expiry"]["health"] == "warning" and "expires in" in rows["expiry"]["finding"], f"check says {rows}")


class Mute:
    """Takes connections with the aggregator's certificate, and answers nothing."""

    def __init__(self, workspace):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(workspace.path / "server.crt", workspace.path / "server.key")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                stream = self.context.wrap_socket(self.listener.accept()[0], server_side=True)
                while stream.recv(65536):
                    pass
            except OSError:
                pass


def who_does_not_answer_is_said(workspace, aggregator):
    """Enrolling with an aggregator that hangs, in each way: that time is over, and what it was spent on."""
    fresh = Client(workspace, aggregator)
    fresh.state = workspace.path / "fresh"
    fresh.options += ["--set", f"client.state_dir={fresh.state}", "--set", "client.timeout=1s"]
    code = aggregator.join_code(uses=9)
    aggregator.process.send_signal(signal.SIGSTOP)
    fresh.run("enroll", code, code=1, says=f"enrolling with {aggregator.url} failed: timed out: no byte was sent or received for 1000 ms "
              "while TLS was being set up\n")
    aggregator.process.send_signal(signal.SIGCONT)
    mute = Mute(workspace)
    fresh.run("enroll", "--set", f"client.server=https://127.0.0.1:{mute.port}", code, code=1,
              says="timed out: no byte was sent or received for 1000 ms while the client waited for the answer; try again: if "
              "the aggregator has accepted the code")
    # Its database is held by another program.
    patient = ["--set", "client.timeout=100s"]
    with contextlib.closing(sqlite3.connect(aggregator.state / "tern.db", isolation_level=None, timeout=60)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        fresh.run("enroll", *patient, code, code=1, says="failed: the aggregator answered HTTP 503: The aggregator could not store the request. ")
        # Who comes behind another one while that lasts is told at once.
        other = Client(workspace, aggregator)
        other.options += ["--set", f"client.state_dir={workspace.path / 'other'}"]
        told = threading.Event()

        def be_in_front():
            while not told.is_set():
                other.attempt("enroll", *patient, code)
        before = threading.Thread(target=be_in_front, daemon=True)
        before.start()
        behind = "failed: the aggregator answered HTTP 503: The aggregator's database does not answer. Nothing changed; " \
                 "try again later."
        tries = []
        while not (tries and behind in tries[-1]) and len(tries) < 30:
            time.sleep(0.9 * (len(tries) % 5))  # what comes at once is told together with the one in front
            tries.append(fresh.attempt("enroll", *patient, code).stderr)
        told.set()
        before.join()
        check(behind in tries[-1], f"who comes behind another one was told: {tries}")
        holder.execute("ROLLBACK")
    aggregator.log_line("event=store-recovered")
    fresh.run("enroll", *patient, code)
    # Too many come from here.
    aggregator.kill(signal.SIGTERM)
    aggregator.settings["limits"] = {"enrollments_per_minute": 1}
    aggregator.write_config()
    aggregator.start()
    for _ in range(2):
        done = subprocess.run([BIN / "tern-client", "enroll", "--force", *fresh.options, code], capture_output=True, text=True,
                              timeout=PATIENCE)
    check(done.returncode == 1 and "failed: the aggregator answered HTTP 429: This address has sent too many enrolments within a minute; "
          "try again later." in done.stderr, f"exit {done.returncode}: {done.stderr}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-16-10", "seed": 3},
            "round": {"cohort": 2, "quorum": 2, "min_clients": 2, "deadline": "5m", "rounds": 3},
            "train": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.05},
        }).start()
        client = Client(workspace, aggregator)
        enrolling_again_keeps_the_meter(client, aggregator)
        a_wrong_setting_is_a_usage_error(client)
        once_says_what_it_came_to(client)
        the_end_of_certificates_is_told(client, aggregator)
        a_local_lock_is_no_refusal(client)
        a_factory_writes_the_identity(workspace, aggregator)
        who_does_not_answer_is_said(workspace, aggregator)


main(test)
