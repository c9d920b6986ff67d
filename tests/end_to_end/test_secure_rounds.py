"""Secure rounds by the real programs: a helper, an aggregator that sees the sum of masked updates alone, and five clients. A
killed helper and a killed aggregator lose nothing: every masked update is settled once, and verify replays the sums."""

import csv
import json
import random
import re
import signal
import sqlite3
import subprocess

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, make_certificates, run, wait_until

FEATURES, CLASSES, CLIENTS, ROUNDS = 6, 3, 5, 4


class Helper:
    """tern-helper of another operator, whose port stays the same."""

    def __init__(self, workspace):
        self.workspace, self.process = workspace, None
        self.folder = workspace.path / "helper-tls"
        self.folder.mkdir()
        make_certificates(self.folder)
        self.port_file = workspace.path / "helper-port"
        self.settings = {"state_dir": workspace.path / "helper", "address": "127.0.0.1", "port": 0,
                         "port_file": self.port_file, "certificate": self.folder / "server.crt",
                         "private_key": self.folder / "server.key", "min_clients": 3}
        self.key = json.loads(self.verb("init", "--json"))["public_key"]
        self.token = json.loads(self.verb("federation", "add", "pumps", "--json"))["token"]

    def options(self):
        return [word for key, value in self.settings.items() for word in ("--set", f"helper.{key}={value}")]

    def verb(self, *arguments):
        return run(BIN / "tern-helper", *arguments, *self.options())

    def start(self):
        self.port_file.unlink(missing_ok=True)
        self.process = self.workspace.start(BIN / "tern-helper", "serve", *self.options(), log="helper")
        wait_until("the helper did not start", lambda: self.port_file.exists() and self.port_file.read_text().strip())
        self.settings["port"] = int(self.port_file.read_text())
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=PATIENCE)


def write_table(path, number):
    draw = random.Random(number)
    with open(path, "w", newline="") as out:
        table = csv.writer(out)
        table.writerow([f"x{i}" for i in range(FEATURES)] + ["state"])
        for _ in range(200):
            state = draw.randrange(CLASSES)
            table.writerow([f"{state - 1 + 0.5 * draw.gauss(0, 1):.3f}" for _ in range(FEATURES)] + [state])


def client(workspace, aggregator, helper, number, *arguments):
    config = workspace.path / f"{number}.ini"
    if not config.exists():
        table = workspace.path / f"{number}.csv"
        write_table(table, number)
        code = json.loads(helper.verb("code", "pumps", "--json"))["code"]
        config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\nname = {number}\n"
            f"state_dir = {workspace.path}/{number}\nwait = 5m\nretry_min = 100ms\n"
            f"[data]\nsource = csv:{table},label=state\n"
            f"[secure]\nhelper_key = {helper.key}\ncode = {code}\nmin_clients = 3\n")
    return [BIN / "tern-client", *arguments, "--config", config]


def settings(workspace, helper):
    token = workspace.path / "token"
    token.write_text(helper.token)
    token.chmod(0o600)
    return {
        "federation": {"model": f"softmax:{FEATURES}-{CLASSES}"},
        "round": {"min_interval": "1ms", "min_clients": CLIENTS, "cohort": CLIENTS, "rounds": ROUNDS,
                  "come_back_min": "50ms", "strategy": "fedavg:norm_bound=0"},
        "train": {"local_steps": 5},
        "codec": {"error_feedback": "keep"},
        "downloads": {"plan": "trunk", "final_model": "none"},
        "secure": {"helper": f"https://127.0.0.1:{helper.settings['port']}", "ca": helper.folder / "ca.crt",
                   "helper_key": helper.key, "token": token, "min_clients": 3}}


def settlements(workspace, number):
    """(round, result) of every settlement that a client logged."""
    text = (workspace.path / f"client-{number}.log").read_text()
    return re.findall(r"event=settled round=(\d+) sequence=\d+ result=(\w+)", text)


def check_sums(aggregator, helper):
    rounds = aggregator.json("rounds")
    check([row["state"] for row in rounds] == ["committed"] * ROUNDS, f"{rounds}")
    check(all(row["mode"] == "secure" and row["applied"] == CLIENTS for row in rounds), f"{rounds}")
    check(rounds[-1]["mean_loss"] < rounds[0]["mean_loss"], "nothing was learnt")
    log = helper.verb("log")
    for number in range(1, ROUNDS + 1):
        check(log.count(f"sum federation=pumps round={number} clients={CLIENTS} ") == 1, log)


def test():
    with Workspace() as workspace:
        helper = Helper(workspace).start()
        aggregator = Aggregator(workspace, settings(workspace, helper)).start()
        status = aggregator.verb("status")
        check("sums of 3 updates or more, a weak protection" in status, status)
        code = aggregator.join_code(uses=CLIENTS)
        for number in range(CLIENTS):
            subprocess.run(client(workspace, aggregator, helper, number, "enroll", code), check=True,
                           stdout=subprocess.DEVNULL, timeout=PATIENCE)
        running = [workspace.start(*client(workspace, aggregator, helper, number, "run"), log=f"client-{number}")
                   for number in range(CLIENTS)]
        aggregator.log_line("event=round ", times=1)
        helper.kill()
        aggregator.kill()
        aggregator.start()
        helper.start()
        for process in running:
            check(process.wait(timeout=PATIENCE) == 0, "a client did not end with the federation")
        check_sums(aggregator, helper)
        for number in range(CLIENTS):
            found = settlements(workspace, number)
            check(found == [(str(r), "counted") for r in range(1, ROUNDS + 1)], f"client {number}: {found}")
        check(aggregator.json("status")["mode"] == "secure", "status names no mode")
        aggregator.kill(signal.SIGTERM)
        check(f"Replaying all {ROUNDS} rounds" in aggregator.verb("verify"), "the sums make other versions")
        with sqlite3.connect(aggregator.state / "tern.db") as db:
            bodies = db.execute("SELECT count(*) FROM update_bodies").fetchone()[0]
            check(bodies == 0, f"{bodies} masked updates are still stored")


main(test)
