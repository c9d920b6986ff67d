"""Gateways: the mean over all devices reaches the upstream aggregator, once, whatever is killed.

Two gateways with three devices each and a device that is the aggregator's own client. Without compression they come
to the model that the same seven devices make as clients of one aggregator. With compression, over kills of all
programs, everything that devices changed is found: applied, or in an error buffer of a device or of a gateway.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import time
from types import SimpleNamespace

from authority import Authority
from conservation import BLOCK, PROGRAM, Fleet, check_client, expect_progress, newest_version
from harness import BIN, LONG, NIGHT, PATIENCE, SANITIZED, Aggregator, Gateway, Workspace, check, main, run
from nodes import port_to_keep
from spoiling_proxy import SpoilingProxy

DEVICES = 3
EXAMPLES = [5, 10, 40, 1, 7, 20, 13]  # of the seven devices
STEPS = 2  # local ones, as devices do, and not the gateways' settings
KILLS = 120 if LONG else 12
QUICK = {"come_back_min": "20ms", "come_back_max": "500ms"}
OPEN = {"requests_per_minute": 1000000, "connections_per_address": 5000}

def gateway(workspace, upstream, name, devices, codec="float32", deadline="1500ms", port=None):
    return Gateway(workspace, upstream, name, {
        "round": {"cohort": devices, "min_clients": devices, "quorum": 1, "deadline": deadline, **QUICK},
        "codec": {"error_feedback": "keep", "codec": codec, "codec_down": "float32"},
         "limits": OPEN}, port).start()

def wait_for(what, message, seconds=PATIENCE, pause=0.05):
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        check(time.monotonic() < deadline, message)
        time.sleep(pause)

# --- Without compression

def exported(aggregator, workspace):
    target = workspace.path / "model.f32"
    aggregator.verb("export", "--global", target)
    data = target.read_bytes()
    return struct.unpack(f"<{len(data) // 4}f", data)

def towards(workspace, aggregator, code, device):
    workspace.start(PROGRAM, "towards", f"https://localhost:{aggregator.port}", aggregator.ca,
                    workspace.path / f"device{device}", code, device + 1, EXAMPLES[device], log=f"device{device}")

def federation(workspace, clients, rounds):
    return Aggregator(workspace, {
        "federation": {"model": "softmax:200-8", "seed": 5},
        "round": {"strategy": "fedavg:norm_bound=0,normalise=no", "cohort": clients, "min_clients": clients, "quorum": clients, "deadline": "60s",
                  "rounds": rounds, **QUICK},
        "train": {"local_steps": STEPS},
        "codec": {"error_feedback": "keep", "codec": "float32"},  "limits": OPEN}).start()

def finished(aggregator, rounds):
    wait_for(lambda: newest_version(aggregator.state / "tern.db") == rounds, f"no {rounds} rounds")

def directly(rounds, devices=len(EXAMPLES)):
    with Workspace() as workspace:
        upstream = federation(workspace, devices, rounds)
        code = upstream.join_code(uses=devices)
        for device in range(devices):
            towards(workspace, upstream, code, device)
        finished(upstream, rounds)
        return exported(upstream, workspace)

def test_mean(rounds=3):
    """The two sites have 55 and 28 of 96 examples, so equal weights of the gateways would give another mean."""
    direct = directly(rounds)
    with Workspace() as workspace:
        upstream = federation(workspace, 3, rounds)
        for site in range(2):
            site_gateway = gateway(workspace, upstream, f"gateway{site}", DEVICES, deadline="60s")
            code = site_gateway.join_code(uses=DEVICES)
            for device in range(site * DEVICES, (site + 1) * DEVICES):
                towards(workspace, site_gateway, code, device)
        towards(workspace, upstream, upstream.join_code(), len(EXAMPLES) - 1)
        finished(upstream, rounds)
        tree = exported(upstream, workspace)
        status = site_gateway.json("status")["gateway"]
        check(status["wire_up"] > status["payload_up"] > 4 * len(tree) * rounds,
              f"the link's meter says {status}")
        check(status["updates_answered"] == rounds, f"{status}")
        check("upstream link since join" in site_gateway.verb("status"), "status does not say the link's bytes")
        for process in workspace.processes[-DEVICES - 1:]:  # the devices of the last site, and the direct one
            check(process.wait(timeout=PATIENCE) == 0, "a device was not told of the end")
        now = site_gateway.json("status")["now"]
        check(now == "finished: the federation of the upstream aggregator is done", f"at the end, now: {now}")
    # A weight is below 1; each round rounds it a few times.
    worst = max(abs(a - b) for a, b in zip(direct, tree))
    moved = max(abs(a) for a in direct)
    check(moved > 0.1, "the model has not moved")
    check(worst < 4 * rounds * 2.0 ** -24, f"the tree's model is {worst} off the direct one's")
    print(f"{rounds} rounds of 7 devices, 6 of them behind 2 gateways: at most {worst:.1e} off")

def test_levels(rounds=2):
    """A gateway below a gateway."""
    direct = directly(rounds, 2)
    with Workspace() as workspace:
        upstream = federation(workspace, 1, rounds)
        upper = gateway(workspace, upstream, "gateway0", 2, deadline="60s")
        lower = gateway(workspace, upper, "gateway1", 1, deadline="60s")
        towards(workspace, upper, upper.join_code(), 0)
        towards(workspace, lower, lower.join_code(), 1)
        finished(upstream, rounds)
        worst = max(abs(a - b) for a, b in zip(direct, exported(upstream, workspace)))
    check(worst < 8 * rounds * 2.0 ** -24, f"with two levels of gateways the model is {worst} off the direct one's")

# --- With compression, and kills

def book(site_gateway):
    """(client upstream, pending bytes, last round taken, buffer, pending update) of a gateway that does not run."""
    lines = run(PROGRAM, "gateway", site_gateway.state / "upstream").split("\n")
    values = [[float(word) for word in line.split()] for line in lines[1:] if line]
    return *(int(field) for field in lines[0].split()), [v[0] for v in values], [v[1] for v in values]

def check_gateway(site_gateway, upstream):
    """The sum of the means of its rounds = what was applied upstream + its error buffer."""
    client, pending, taken, buffer, _ = book(site_gateway)
    check(pending == 0, f"{site_gateway.name} still has a pending update")
    lines = run(PROGRAM, "means", site_gateway.state / "tern.db", taken).split()
    rounds, means = int(lines[0]), [float(line) for line in lines[1:]]
    lines = run(PROGRAM, "applied", upstream.state / "tern.db", client).split("\n")
    updates = int(lines[0].split()[1])
    applied = [float(line.split()[0]) for line in lines[1:] if line]
    worst = max(abs(m - a - b) for m, a, b in zip(means, applied, buffer))
    check(worst < 1e-4, f"{site_gateway.name}: means of {rounds} rounds, less {updates} updates applied and the error "
          f"buffer, leave {worst}")
    check(max(map(abs, means)) > 0.1, f"{site_gateway.name} has learnt nothing")
    return rounds, updates, max(map(abs, buffer))

def settle(site_gateway):
    """The gateway alone, until what it had under way is answered."""
    asked = time.monotonic()
    while book(site_gateway)[1] > 0:
        check(time.monotonic() < asked + PATIENCE, f"{site_gateway.name}: its update is not answered")
        site_gateway.start()
        time.sleep(1.5)
        site_gateway.kill(signal.SIGTERM)

class Tree:
    """sites: the devices of each gateway's."""

    def __init__(self, workspace, rounds, sites=(DEVICES, DEVICES)):
        self.upstream = Aggregator(workspace, {
            "federation": {"model": f"softmax:{2 * rounds + 1}-{BLOCK}", "seed": 5},
            "round": {"strategy": "fedavg:norm_bound=0,normalise=no", "cohort": 3, "min_clients": 3, "quorum": 1, "deadline": "1500ms", **QUICK},
            "train": {"local_steps": STEPS},
            "codec": {"error_feedback": "keep", "codec": "3lc:s=1.5", "codec_down": "float32"},
             "limits": OPEN}).start()
        self.gateways = [gateway(workspace, self.upstream, f"gateway{site}", devices, "3lc:s=1.5", "700ms")
                         for site, devices in enumerate(sites)]
        self.fleets = [Fleet(workspace, one, devices, name=f"{one.name}-device")
                       for one, devices in zip(self.gateways, sites)]
        self.fleets.append(Fleet(workspace, self.upstream, 1, name="direct"))
        for fleet in self.fleets:
            fleet.start_all()

    def kill_somebody(self, rng, kill):
        if kill % 4 == 3:
            self.upstream.kill()
            self.upstream.start()
        elif kill % 4 == 2:
            fleet = self.fleets[rng.randrange(3)]
            index = rng.randrange(fleet.clients)
            fleet.kill(index)
            fleet.start(index)
        else:
            one = self.gateways[rng.randrange(2)]
            one.kill()
            one.start()

    def end(self):
        for fleet in self.fleets:
            for index in range(fleet.clients):
                fleet.kill(index)
        for one, fleet in zip([*self.gateways, self.upstream], self.fleets):
            for index in range(fleet.clients):
                fleet.settle(index)
        for one in self.gateways:
            one.kill(signal.SIGTERM)

    def check(self, *fleets):
        """Over the whole tree, which has ended: of each device, also of these fleets, what it changed is applied or in its
        error buffer; the model of each aggregator is what was applied; and of each gateway what it applied is applied
        upstream or in its error buffer. Returns rounds, updates and the largest left of each gateway."""
        for one in self.gateways:
            settle(one)
        self.upstream.kill(signal.SIGTERM)
        for fleet in (*self.fleets, *fleets):
            for index in range(fleet.clients):
                check_client(fleet, index, fleet.aggregator.state / "tern.db")
        for one in (*self.gateways, self.upstream):
            one.verb("verify")
        found = [check_gateway(one, self.upstream) for one in self.gateways]
        anomalies = {row["anomaly"] for one in (self.upstream, *self.gateways) for row in one.json("ledger")}
        check(anomalies == {"none"}, f"error buffers are suspected: {anomalies}")
        return found

def often(upstream):
    """Returns the number of clients with more than 3 updates."""
    with contextlib.closing(sqlite3.connect(f"file:{upstream.state / 'tern.db'}?mode=ro", uri=True, timeout=20)) as reader:
        return reader.execute("SELECT count(*) FROM (SELECT client FROM updates GROUP BY client HAVING count(*) > 3)").fetchone()[0]

def test_kills():
    rng = random.Random(20262)
    with Workspace() as workspace:
        tree = Tree(workspace, 2000)
        for kill in range(KILLS):
            time.sleep(rng.uniform(0.05, 0.5))
            tree.kill_somebody(rng, kill)
        for one in tree.gateways:
            expect_progress(one, "after the kills")
        expect_progress(tree.upstream, "after the kills")
        wait_for(lambda: often(tree.upstream) == len(tree.fleets), "a gateway or the direct client has no 4 updates upstream")
        tree.end()
        for one, (rounds, updates, left) in zip(tree.gateways, tree.check()):
            check(rounds >= updates > 3, f"{one.name}: {rounds} rounds, {updates} updates")
            check(left > 1e-3, "its error buffer is empty: the test misses its point")
            print(f"{one.name}: {rounds} rounds of its devices are {updates} updates upstream and its error buffer")
            with sqlite3.connect(one.state / "tern.db") as reader:
                asked = reader.execute("SELECT DISTINCT local_steps FROM assignments WHERE client > 1"
                                       " AND local_steps > 0").fetchall()
            check(asked == [(STEPS,)], f"{one.name} asked for {asked} local steps")

# --- A device that moves, and a gateway that is gone

def updates_of_open_round(one):
    """Returns the number of devices' updates in a gateway's open round."""
    with contextlib.closing(sqlite3.connect(f"file:{one.state / 'tern.db'}?mode=ro", uri=True, timeout=20)) as reader:
        return reader.execute("SELECT count(*) FROM updates WHERE client > 1 AND round IN"
                              " (SELECT round FROM rounds WHERE state = 0)").fetchone()[0]

def lose_in_a_round(one, fleet):
    """Kills a gateway whose round is open and has some of its updates: a device that sleeps keeps it open."""
    fleet.running[0].send_signal(signal.SIGSTOP)
    wait_for(lambda: 0 < updates_of_open_round(one) < fleet.clients, f"{one.name} has no round with some of its updates", pause=.002)
    one.kill()
    left = updates_of_open_round(one)
    fleet.running[0].send_signal(signal.SIGCONT)
    return left

def test_moves():
    """A device is enrolled once with each aggregator that it trains against, with a folder for each: what it has
    there stays there, and counts when it is back. Sites of 2 and of 4 devices, of which one is lost in a round."""
    with Workspace() as workspace:
        tree = Tree(workspace, 2000, (2, 4))
        here, there = tree.fleets[0], Fleet(workspace, tree.gateways[1], 1, name="moved")
        for stay in (here, there, here, there):
            other = there if stay is here else here
            for fleet in (stay, other):
                if fleet.running[0]:
                    fleet.kill(0)
            stay.start(0)
            for _ in range(2):
                expect_progress(stay.aggregator, "after the move")
        here.start(0)
        # A site is lost: the upstream aggregator goes on by its quorum.
        lost = 0
        for _ in range(3):
            lost += lose_in_a_round(tree.gateways[0], here) > 0
            expect_progress(tree.upstream, "without a gateway", 3)
            tree.gateways[0].start()
            expect_progress(tree.gateways[0], "once it is back")
        check(lost > 0, "no gateway was lost with some of its updates: the test misses its point")
        there.kill(0)
        tree.end()
        tree.gateways[1].start()
        there.settle(0)
        tree.gateways[1].kill(signal.SIGTERM)
        tree.check(there)
        moved = [check_client(fleet, 0, fleet.aggregator.state / "tern.db")[1] for fleet in (here, there)]
        check(min(moved) > 0, f"the device had {moved} updates in its two places")

def test_restored():
    """The database of a gateway is put back to an older copy: its rounds count from there, and none is left out for
    having a number that was taken before."""
    with Workspace() as workspace:
        upstream = federation(workspace, 1, 2000)
        one = gateway(workspace, upstream, "gateway0", 1)
        device = Fleet(workspace, one, 1)
        device.start_all()
        expect_progress(upstream, "at first", 2)
        copy = workspace.path / "copy.db"
        one.verb("backup", copy)
        expect_progress(upstream, "later", 15)
        one.kill(signal.SIGTERM)
        before = book(one)[2]
        one.verb("restore", copy)
        back = newest_version(one.state / "tern.db")
        check(back + 20 < before, f"the copy is of version {back}, and {before} was taken: the test misses its point")
        one.start()
        expect_progress(upstream, "once the copy was restored", 2)
        one.kill(signal.SIGTERM)
        check(book(one)[2] < before, "rounds were left out until their numbers were new")

def test_damaged():
    """What was in a damaged record is not known: it is named, and the gateway goes on with what comes."""
    with Workspace() as workspace:
        upstream = federation(workspace, 1, 2000)
        one = gateway(workspace, upstream, "gateway0", 1)
        Fleet(workspace, one, 1).start_all()
        expect_progress(upstream, "at first", 2)
        one.kill(signal.SIGTERM)
        record = one.state / "upstream" / "upload"
        damaged = bytearray(record.read_bytes())
        damaged[-1] ^= 1  # of the number of the last round
        record.write_bytes(damaged)
        one.start()
        one.log_line("event=gateway-record-damaged")
        expect_progress(upstream, "with a damaged record", 2)
        check(upstream.json("ledger")[0]["anomaly"] == "lost", "the upstream aggregator does not see that a buffer was lost")
        # Nor is a start held up by what was last said of training, or by when the upstream aggregator was silent.
        upstream.kill()
        one.log_line("event=upstream-unreachable")
        one.kill(signal.SIGTERM)
        for name in ("course", "silent"):
            file = one.state / "upstream" / name
            check(file.exists(), f"there is no file {name}: the test misses its point")
            data = file.read_bytes()
            file.write_bytes(data[:4] + b"\xff" * (len(data) - 4))
        upstream.start()
        one.start()
        check(one.json("status")["gateway"]["answers"] is True, "a damaged file was believed")
        expect_progress(upstream, "with damaged files beside the record", 2)

# --- The upstream aggregator does not answer

def admin(aggregator, method, path):
    """Status and body of what the operators' listener answers."""
    token = (aggregator.state / "admin.token").read_text().strip()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.connect(str(aggregator.settings["admin"]["address"]).removeprefix("unix:"))
        listener.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                         "Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        head, _, body = b"".join(iter(lambda: listener.recv(65536), b"")).decode().partition("\r\n\r\n")
    return int(head.split()[1]), body

def ready(aggregator):
    return admin(aggregator, "GET", "/readyz")

def findings(aggregator, ok):
    return {row["area"]: row for row in json.loads(aggregator.verb("doctor", "--json", ok=ok))}

def check_silent(one, since_ms, words):
    status = one.json("status")
    said = status["gateway"]
    check(said["answers"] is False and said["silent_why"], f"{said}")
    check(since_ms <= said["silent_ms"] <= 1000 * time.time(), f"it was killed at {since_ms}, and {said}")
    check(status["now"].startswith(f"the upstream aggregator {words}"), f"now: {status['now']}")
    check("updates are kept on this disk" in status["advice"], f"advice: {status['advice']}")
    text = one.verb("status")
    check(re.search(rf"\n +the upstream aggregator {words} for .*\(.+\), since 20", text), f"status says {text}")
    about = findings(one, (1,))["upstream"]
    check(about["health"] == "problem" and words in about["finding"], f"doctor says {about}")
    asked = time.time()
    code, body = ready(one)
    check(code == 200 and body.startswith(f"ok, but the upstream aggregator {words}"), f"/readyz says {code} {body}")
    number, unit = re.search(r"for ([\d.]+) (\w+)", body).groups()
    shown = float(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]
    check(shown > asked - since_ms / 1000 - 2, f"killed at {since_ms / 1000}, and at {asked}: {body}")
    metrics = one.metrics()
    check(metrics["tern_upstream_answers"] == 0, "tern_upstream_answers is not 0")
    return said["silent_ms"]

def test_silent():
    """Who looks is told that the upstream aggregator does not answer, since when and why, and what becomes of updates."""
    with Workspace() as workspace:
        upstream = federation(workspace, 1, 2000)
        one = gateway(workspace, upstream, "gateway0", 1)
        Fleet(workspace, one, 1).start_all()
        expect_progress(upstream, "at first", 2)
        check(one.json("status")["gateway"]["answers"] is True, "it answers, and status says no")
        check(findings(one, (0,))["upstream"]["health"] == "good", "it answers, and doctor says no")
        check(ready(one) == (200, "ok\n"), f"/readyz says {ready(one)}")
        check(one.metrics()["tern_upstream_answers"] == 1, "tern_upstream_answers is not 1")
        check(one.metrics()["tern_upstream_answered_seconds"] > time.time() - 60, "when it last answered")
        killed_ms = int(1000 * time.time())
        upstream.kill()
        line = one.log_line("event=upstream-unreachable")
        check("advice=" in line and "for_s=" in line, line)
        first = check_silent(one, killed_ms, "has not been reached")
        check(one.metrics()["tern_upstream_answered_seconds"] <= killed_ms / 1000 + 1, "when it last answered")
        one.kill()
        time.sleep(3)  # as is seen by what a second start says
        status = one.json("status")
        check(status["gateway"]["answers"] is None, f"nobody runs: {status['gateway']}")
        tries = len(re.findall("event=upstream-unreachable", (workspace.path / "gateway0.log").read_text()))
        one.start()
        one.log_line("event=upstream-unreachable", tries + 1)
        check(check_silent(one, killed_ms, "has not been reached") == first, "a start makes it younger")
        # Without the operators' listener the file alone says it.
        one.kill(signal.SIGTERM)
        check("event=stopping" in (workspace.path / "gateway0.log").read_text(), "it did not stop in order")
        one.settings["admin"]["address"] = ""
        one.write_config()
        one.start()
        check(one.json("status")["now"].startswith("the upstream aggregator has not been reached"),
              f"without a listener: {one.json('status')['now']}")
        upstream.start()
        one.log_line("event=upstream-answers")
        expect_progress(upstream, "once it is back", 2)
        status = one.json("status")
        check(status["gateway"]["answers"] is True and "the upstream aggregator has" not in status["now"], f"{status}")
        check(findings(one, (0,))["upstream"]["health"] == "good", "it answers again, and doctor says no")

# --- The upstream aggregator answers with arbitrary bytes

SPOILED = 200 if LONG else 12  # answers

def test_spoiled():
    """Answers of the upstream aggregator that are damaged, or lies: the gateway lives, its records stay readable, and it goes on
    with the first that are good. (What a lie said was given back may count twice: who lies is the one that counts.)"""
    seed = int(os.environ.get("TERN_SPOIL_SEED", "1"))
    with Workspace() as workspace:
        upstream = federation(workspace, 1, 100000)
        proxy = SpoilingProxy(workspace, upstream.port, seed)
        proxy.spoiling = False
        one = gateway(workspace, upstream, "gateway0", 2, "3lc:s=1.5", port=proxy.port)
        Fleet(workspace, one, 2).start_all()
        expect_progress(upstream, "at first", 2)
        proxy.spoiling = True
        end = time.monotonic() + PATIENCE
        while proxy.spoiled < SPOILED:
            check(time.monotonic() < end, f"only {proxy.spoiled} answers were spoiled")
            time.sleep(.1)
            if one.process.poll() is not None:
                # It may be told that it is revoked, or that all is over; then it says so.
                check(one.process.returncode == 3, f"seed {seed}: the gateway ended with {one.process.returncode}")
                one.start()
        proxy.spoiling = False
        one.kill(signal.SIGTERM)
        check(one.process.returncode in (0, 3, 5), f"seed {seed}: it ended with {one.process.returncode}")
        book(one)
        one.verb("verify")
        one.start()
        expect_progress(upstream, f"seed {seed}: once answers are good", 3)
        print(f"{proxy.spoiled} answers from upstream were spoiled, {proxy.passed} were not")

# --- The link's TLS

def join(upstream, state, code, **settings):
    """The exit code and what is said."""
    named = {"server": upstream.url, "ca": upstream.ca} | settings
    options = [part for key, value in named.items() for part in ("--set", f"relay.{key}={value}")]
    done = subprocess.run([BIN / "tern-aggregator", "join", "--state", state, *options, code], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    return done.returncode, done.stderr

def test_tls():
    """What is wrong with the link is said by the names of a gateway's settings, and the code is not used up by it."""
    with Workspace() as workspace:
        clients = Authority(workspace.path / "clients")
        other = Authority(workspace.path / "other")
        certificate = clients.issue("gateway", "/CN=gateway 1")
        upstream = federation(workspace, 1, 1000)
        code = upstream.join_code()
        state = workspace.path / "tls-state"
        for settings, words in (({"ca": other.file}, f"relay.ca ({other.file})"),
                                ({"ca": ""}, "relay.ca (not set: the system's)"),
                                ({"ca": "nowhere.crt"}, "relay.ca: the CA file nowhere.crt cannot be read"),
                                ({"tls": "9"}, "tls = '9' is not known; allowed: 1.2 | 1.3 | auto"),
                                ({"key": "a"}, "relay.certificate and relay.key go together")):
            exit_code, said = join(upstream, state, code, **settings)
            check(exit_code != 0 and words in said and "client.c" not in said, f"{settings}: {said}")
        cut = SimpleNamespace(config=workspace.path / "cut.ini")
        cut.config.write_text(f"[federation]\nstate = {state}\n[relay]\nserver = {upstream.url}\nca = {upstream.ca}\n")
        fails(cut, "relay", f"join was interrupted in {state}: run `tern-aggregator join CODE`")
        fails(cut, "doctor", "`tern-aggregator join CODE` was interrupted")
        check(join(upstream, state, code)[0] == 0, "the code is used up, or what failed stands in the way")
        # It shows a certificate of its own where it is asked for one.
        upstream.kill(signal.SIGTERM)
        upstream.settings["tls"] = {"client_ca": clients.file}
        upstream.write_config()
        upstream.start()
        code = upstream.join_code()
        exit_code, said = join(upstream, workspace.path / "asked", code)
        check(exit_code != 0 and "relay.certificate and relay.key" in said, f"without a certificate: {said}")
        shown = {key.removeprefix("client."): value for key, value in certificate.items()}
        exit_code, said = join(upstream, workspace.path / "asked", code, **shown)
        check(exit_code == 0, f"with a certificate: {said}")
        check(upstream.json("clients")[-1]["name"] == "gateway 1", f"{upstream.json('clients')}")

# --- A rollback upstream

def resets(one):
    return one.metrics()['tern_error_directives_total{directive="reset"}']

def test_rollback():
    """The gateway's own error buffer is empty, but its devices reset theirs, once; and the mean of a round that began before the
    rollback is not sent."""
    with Workspace() as workspace:
        upstream = federation(workspace, 1, 2000)
        one = gateway(workspace, upstream, "gateway0", 2, "3lc:s=1.5", deadline="50s")
        fleet = Fleet(workspace, one, 2)
        fleet.start_all()
        expect_progress(upstream, "at first", 3)
        fleet.kill(1)
        wait_for(lambda: updates_of_open_round(one) == 1, "no round of devices is half done")
        one.kill()
        before = newest_version(upstream.state / "tern.db")
        upstream.verb("rollback", "--version", "1", "--why", "the test undoes it", "--abandon-round")
        wait_for(lambda: newest_version(upstream.state / "tern.db") > before, "no version was restored")
        tasks = (workspace.path / "gateway0.log").read_text().count("event=upstream-task")
        one.start()
        one.log_line("event=upstream-task", tasks + 1)
        fleet.start(1)
        line = one.log_line("event=upstream-resets")
        check(re.search("dropped=[1-9]", line), line)
        expect_progress(upstream, "after the rollback", 3)
        check(resets(one) == 2, f"{resets(one)} devices reset their error buffers")
        one.kill()
        one.start()
        expect_progress(upstream, "after another start", 3)
        check(resets(one) == 0, "devices reset their error buffers again")
        check(one.log_line("event=upstream-resets") == line, "the reset comes again")

# --- The document

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "GATEWAYS.md"

def test_walkthrough():
    """The commands of docs/GATEWAYS.md, as they stand but for their ports and pauses."""
    script = re.search(r"^```sh\n(.*?)^```", DOCUMENT.read_text(), re.M | re.S).group(1)
    public, below, admin, below_admin = (port_to_keep() for _ in range(4))
    for shown, instead, times in ((8443, public, 1), (8444, below, 2), (9444, below_admin, 1)):
        check(script.count(str(shown)) == times, f"{shown} is not {times} times in the walkthrough")
        script = script.replace(str(shown), str(instead))
    script = script.replace("tern-aggregator serve ", f"tern-aggregator serve --set server.port={public} "
                            f"--set admin.port={admin} ")
    check(script.count("sleep 2\n") == 2, "the pauses of the walkthrough")
    for port in (public, below):
        script = script.replace("sleep 2\n", f"until (: < /dev/tcp/127.0.0.1/{port}) 2>&-; do kill -0 %%; sleep 0.05; done\n", 1)
    with Workspace() as workspace:
        environment = dict(os.environ, PATH=f"{BIN.resolve()}:{os.environ['PATH']}")
        script = "trap 'kill $(jobs -p); wait' EXIT\n" + script
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script],
                              cwd=workspace.path, env=environment, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, check=False)
        check(done.returncode == 0, f"the walkthrough exited {done.returncode}:\n{done.stdout}")
        for sign in ("Joined https://localhost:", "upstream link since join", "5 updates accepted there",
                     "Rounds      5 committed"):
            check(sign in done.stdout, f"the walkthrough never shows {sign!r}:\n{done.stdout}")

# --- The client that stands for the upstream aggregator

def test_counts():
    """It is none of the clients, nor an evaluator, and cannot be shut out."""
    with Workspace() as workspace:
        upstream = federation(workspace, 1, 1000)
        one = gateway(workspace, upstream, "gateway0", 2)
        for device in range(2):
            run(BIN / "tern-client", "enroll", "--set", f"client.server=https://localhost:{one.port}", "--set",
                f"client.ca={one.ca}", "--set", f"client.state_dir={workspace.path / f'device{device}'}", one.join_code())
        for running in (True, False):
            check("Clients     2 enrolled, 0 of them revoked, 0 evaluators;" in one.verb("status"), one.verb("status"))
            status = one.json("status")
            check((status["clients"], status["evaluators"]) == (2, 0), f"{status}")
            if running:
                wait_for(lambda: one.metrics()["tern_clients"] == 2, "tern_clients is not 2")
                check(one.metrics()["tern_clients_evaluators"] == 0, "tern_clients_evaluators is not 0")
                code, body = admin(one, "GET", "/api/v1/status")
                status = json.loads(body)
                check((code, status["clients"], status["evaluators"]) == (200, 2, 0), f"{status}")
                code, said = admin(one, "POST", "/api/v1/clients/1/revoke")
                check(code == 409 and "stands for the upstream aggregator" in said, f"{code} {said}")
                fails(one, "revoke", "stands for the upstream aggregator", "1")
                one.kill()
        check([row["revoked"] for row in one.json("clients")] == [False] * 3, "one was revoked")
        check(one.json("revoke", "2")["revoked"], "a device cannot be revoked")

# --- What does not fit

def fails(aggregator, verb, words, *arguments):
    done = subprocess.run([BIN / "tern-aggregator", verb, *arguments, "--config", aggregator.config],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    check(done.returncode != 0, f"{verb} went well")
    said = done.stdout + done.stderr
    check(words in said, f"{verb} says {said[-600:]!r}, not {words!r}")
    return said

def test_misfits():
    with Workspace() as workspace:
        upstream = federation(workspace, 1, 1000)
        one = gateway(workspace, upstream, "gateway0", 1)
        said = fails(one, "relay", f"{one.state} is served by another process {one.process.pid}: stop that process")
        check("/upstream" not in said, f"relay names a folder that nobody has made: {said}")
        one.kill()
        (made,) = [row for row in one.json("audit") if row["action"] == "join"]
        check((made["number"], made["after"]) == (1, f"gateway of https://localhost:{upstream.port}"), f"{made}")
        said = one.verb("status")
        check("the gateway is not running (`tern-aggregator relay`)" in said, f"status says {said}")
        fails(one, "doctor", "the gateway is not running")
        fails(one, "serve", "belongs to a gateway: run `tern-aggregator relay`")
        fails(one, "join", "already belongs to a gateway", upstream.join_code())
        for verb, *code in (["join", "CODE"], ["relay"]):
            fails(one, verb, "leave store.url empty", *code, "--set", "store.url=postgresql:///tern")
        fails(upstream, "join", "already holds a federation", "CODE")
        fails(upstream, "relay", "belongs to no gateway")
        fails(upstream, "relay", "belongs to no gateway")  # the first has made nothing that lets the second

        # The records of a client of another model.
        other = Aggregator(workspace, {"federation": {"model": "softmax:12-8", "seed": 5}}, name="other").start()
        two = gateway(workspace, other, "gateway1", 1)
        two.kill()
        kept = workspace.path / "kept"
        (one.state / "upstream").rename(kept)
        (two.state / "upstream").rename(one.state / "upstream")
        fails(one, "relay", "has another model than the upstream aggregator")
        (one.state / "upstream").rename(two.state / "upstream")

        # There is another federation where the one upstream was: it knows no such gateway.
        kept.rename(one.state / "upstream")
        code = one.start().join_code()
        towards(workspace, one, code, 0)
        expect_progress(one, "before the model changes")
        upstream.kill()
        other.kill()
        other.settings["server"]["port"] = upstream.port
        other.write_config()
        other.start()
        check(one.process.wait(timeout=PATIENCE) != 0, "the gateway ended as if all was well")
        one.log_line("the aggregator at relay.server does not accept this gateway")

        # Nobody is there: it waits, says for what, and goes on.
        other.kill()
        one.start()
        one.log_line("event=upstream-unreachable")
        upstream.start()
        expect_progress(one, "once the upstream aggregator is back")

def test():
    test_mean()
    test_damaged()
    test_spoiled()
    test_misfits()
    if SANITIZED and not NIGHT:
        return  # the others run the same code again, for what it makes and prints
    test_kills()
    test_tls()
    test_moves()
    test_restored()
    test_rollback()
    test_levels()
    test_silent()
    test_counts()
    test_walkthrough()

main(test)
