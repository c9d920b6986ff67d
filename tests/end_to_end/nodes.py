"""Several aggregators on one database of PostgreSQL, of which one leads."""

import os
import pathlib
import signal
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "postgres"))
import between  # noqa: E402, F401
import cluster  # noqa: E402, F401

from harness import BIN, PATIENCE, wait_until  # noqa: E402, F401
from ports import port_to_keep  # noqa: E402, F401

# The lock that the one that leads has (SERVICE of postgres.c), as PostgreSQL lists it.
LEADING = "FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'advisory' AND l.granted" \
          " AND l.objsubid = 1 AND l.classid = 2" # 10000000000 and the number of a table, which is small


def ask_ready(admin):
    """What the operators' listener at this unix socket says to /readyz: status and reason."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(PATIENCE)
        asked.connect(str(admin))
        asked.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        head, _, body = b"".join(iter(lambda: asked.recv(65536), b"")).decode().partition("\r\n\r\n")
    return int(head.split()[1]), body.strip()


class Node:
    """One more aggregator on the database of the first, with its certificate and a folder of its own. It stands by, and
    listens once it leads."""

    def __init__(self, first, name, url, port=0, prefix=()):
        """url: as Cluster.url(), without a name. port: 0 until it listens where it may choose. prefix: the beginning of
        its command."""
        self.name, self.port = name, port
        self.log = f"node-{name}"
        self.workspace = first.workspace
        self.state = self.workspace.path / name
        os.mkdir(self.state)
        given = (f"server.port={port}", f"server.port_file={self.state}/port",
                 f"admin.address=unix:{self.state}/admin.sock", f"store.url={url}&application_name={name}")
        self.command = [*prefix, BIN / "tern-aggregator", "serve", "--config", first.config, "--state", self.state,
                        *(part for one in given for part in ("--set", one))]
        self.process = None
        self.begin = 0

    def start(self):
        log = self.workspace.path / f"{self.log}.log"
        self.begin = log.stat().st_size if log.exists() else 0
        self.process = self.workspace.start(*self.command, log=self.log)
        return self

    def kill(self, how=signal.SIGKILL):
        """Returns the exit code."""
        self.process.send_signal(how)
        return self.process.wait(timeout=PATIENCE)

    def said(self):
        """Since it was started last."""
        return (self.workspace.path / f"{self.log}.log").read_bytes()[self.begin:].decode()

    def ready(self):
        return ask_ready(self.state / "admin.sock")

    def waits(self):
        wait_until(f"{self.log} does not stand by", lambda: "event=stands-by" in self.said())

    def leads(self, seconds=PATIENCE):
        wait_until(f"{self.log} does not lead", lambda: "listening on" in self.said(), seconds)
        self.port = int((self.state / "port").read_text())
        return self


def give_up(postgres, name):
    """The server ends the connection by which a node leads, as it does once it has not heard of it. Whether it led."""
    return postgres.sql(f"SELECT count(pg_terminate_backend(a.pid)) {LEADING} AND a.application_name = '{name}'") != "0"
