"""tern-helper for tests, and clients of secure rounds."""

import csv
import json
import random
import signal

from harness import BIN, PATIENCE, make_certificates, run, wait_until
from ports import port_to_keep

FEATURES, CLASSES = 6, 3
MODEL = f"softmax:{FEATURES}-{CLASSES}"


class Helper:
    """tern-helper of another operator, whose port stays the same."""

    def __init__(self, workspace, min_clients=3):
        self.workspace, self.process = workspace, None
        self.folder = workspace.path / "helper-tls"
        self.folder.mkdir()
        make_certificates(self.folder)
        self.port_file = workspace.path / "helper-port"
        self.settings = {"state_dir": workspace.path / "helper", "address": "127.0.0.1", "port": port_to_keep(),
                         "port_file": self.port_file, "certificate": self.folder / "server.crt",
                         "private_key": self.folder / "server.key", "min_clients": min_clients}
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
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=PATIENCE)

    def token_file(self):
        path = self.workspace.path / "token"
        path.write_text(self.token)
        path.chmod(0o600)
        return path

    def code(self):
        return json.loads(self.verb("code", "pumps", "--json"))["code"]

    def settings_of_aggregator(self):
        """The sections of an aggregator whose rounds are secure."""
        return {"downloads": {"plan": "trunk", "final_model": "none"},
                "codec": {"error_feedback": "keep"},
                "secure": {"helper": f"https://127.0.0.1:{self.settings['port']}", "ca": self.folder / "ca.crt",
                           "helper_key": self.key, "token": self.token_file(),
                           "min_clients": self.settings["min_clients"]}}


def write_table(path, number):
    draw = random.Random(number)
    with open(path, "w", newline="") as out:
        table = csv.writer(out)
        table.writerow([f"x{i}" for i in range(FEATURES)] + ["state"])
        for _ in range(200):
            state = draw.randrange(CLASSES)
            table.writerow([f"{state - 1 + 0.5 * draw.gauss(0, 1):.3f}" for _ in range(FEATURES)] + [state])


def masked_client(workspace, aggregator, helper, number, *arguments, min_noise=0, server=None):
    """The command of a client with rows and settings of its own. server: its URL, unless it is the aggregator's."""
    config = workspace.path / f"{number}.ini"
    if not config.exists():
        table = workspace.path / f"{number}.csv"
        write_table(table, number)
        config.write_text(
            f"[client]\nserver = {server or aggregator.url}\nca = {aggregator.ca}\nname = {number}\n"
            f"state_dir = {workspace.path}/{number}\nwait = 5m\nretry_min = 100ms\n"
            f"[data]\nsource = csv:{table},label=state\n"
            f"[secure]\nhelper_key = {helper.key}\ncode = {helper.code()}\nmin_clients = {helper.settings['min_clients']}\nmin_noise = {min_noise}\n")
    return [BIN / "tern-client", *arguments, "--config", config]
