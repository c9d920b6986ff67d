"""Several aggregators on one database, for tests."""

import os
import signal
import time

from harness import BIN, PATIENCE, check


def wait_until(what, condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, what)
        time.sleep(0.05)


class Node:
    """One more aggregator on the database of the first, with its certificate and a folder of its own."""

    def __init__(self, first, name, postgres):
        self.name = name
        self.workspace = first.workspace
        self.state = self.workspace.path / name
        os.mkdir(self.state)
        self.command = [BIN / "tern-aggregator", "serve", "--config", first.config, "--state", self.state,
                        "--set", "server.port=0", "--set", f"server.port_file={self.state}/port",
                        "--set", f"admin.address=unix:{self.state}/admin.sock",
                        "--set", f"store.url={postgres.url(f'&application_name={name}')}"]
        self.process = None
        self.port = 0

    def start(self):
        (self.state / "port").unlink(missing_ok=True)
        self.process = self.workspace.start(*self.command, log=f"node-{self.name}")
        wait_until(f"{self.name} does not listen",
                   lambda: (self.state / "port").exists() and (self.state / "port").read_text().strip())
        self.port = int((self.state / "port").read_text())
        return self

    def kill(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE)
