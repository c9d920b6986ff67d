"""PostgreSQL at the far end of a link that can lose every packet, or take long over each: an aggregator is in a network
namespace of its own, with that link as its one way to the database; who makes this is at the database's end."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time

from fault_proxy import FaultProxy
from hand_client import HandClient
from harness import check, run, skip
from http_by_hand import Connection
from nodes import cluster

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab/bench"))
import bad_link  # noqa: E402

NEAR, FAR = "10.89.0.2", "10.89.0.1"
RATE = 1e9


def new_space():
    """Puts this thread into a network namespace that nobody else is in; returns its file descriptor."""
    if bad_link.libc.unshare(bad_link.CLONE_NEWNET) != 0:
        skip("needs root for network namespaces")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


class Link:
    """From `near` to `far`, where this thread is from now on."""

    def __init__(self):
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            skip("needs /dev/net/tun")
        self.near, self.far = new_space(), new_space()
        self.prefix = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{self.near}")
        devices = bad_link.open_tun("near", self.near), bad_link.open_tun("far", self.far)
        for name, address, peer, prefix in (("near", NEAR, FAR, self.prefix), ("far", FAR, NEAR, ())):
            run(*prefix, "ip", "addr", "add", address, "peer", peer, "dev", name)
            run(*prefix, "ip", "link", "set", name, "up")
        self.carrier = bad_link.Link(*devices, (RATE, RATE), 0.0, 0.0, 0).start()

    def cut(self):
        """From now on nothing comes through, and nobody is told."""
        self.carrier.loss = 1.0

    def mend(self):
        self.carrier.loss = 0.0

    def delay(self, seconds):
        """Sets the round-trip delay of packets to and from the database."""
        self.carrier.delay = seconds / 2


@contextlib.contextmanager
def inside(space):
    """This thread is in that namespace meanwhile."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    bad_link.enter(space)
    try:
        yield
    finally:
        bad_link.enter(home)
        os.close(home)


class Door(FaultProxy):
    """What clients see of aggregators in several namespaces, given as (namespace, port): one address."""

    def _connect(self):
        with self.lock:
            ways = self.random.sample(self.target_ports, len(self.target_ports))
        for space, port in ways:
            with inside(space), contextlib.suppress(OSError):
                return FaultProxy.connect_to(port)
        return None


class Answer:
    """status: None where none came. ms: how long it took."""

    def __init__(self, began, status, headers, task):
        self.began, self.status, self.headers, self.task = began, status, headers, task
        self.ms = (time.monotonic() - began) * 1e3

    def __repr__(self):
        return f"{self.status} after {self.ms:.0f} ms"


class Watcher:
    """Asks an aggregator in a namespace the same again and again, on threads of its own: what needs no database, and a
    check-in, which does."""

    def __init__(self, space, port, ca):
        self.space, self.port, self.ca = space, port, ca
        self.clients = []
        self.ended = threading.Event()
        self.threads = []

    def enroll(self, code, clients=1):
        with inside(self.space):
            self.clients = [HandClient(self.port, self.ca).enroll(code) for _ in range(clients)]
        return self

    def start(self):
        self.health, self.ready, self.checkins = [], [], []
        asks = [(self.health, "/healthz"), (self.ready, "/readyz")] + [(self.checkins, client) for client in self.clients]
        self.threads = [threading.Thread(target=self.ask, args=one, daemon=True) for one in asks]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def ask_once(connection, what):
        """what: a path, or a client that checks in."""
        if not isinstance(what, str):
            return what.checkin(connection)
        status, headers, _ = connection.request("GET", what)
        return status, headers, None

    def ask(self, answers, what):
        bad_link.enter(self.space)
        connection = None
        while not self.ended.is_set():
            began = time.monotonic()
            try:
                connection = connection or Connection(self.port, self.ca)
                answers.append(Answer(began, *self.ask_once(connection, what)))
                if answers[-1].headers.get("connection") == "close":
                    connection = None
            except OSError:
                answers.append(Answer(began, None, {}, None))
                connection = None
            self.ended.wait(0.1)

    def stop(self):
        """It can be started again, with other answers."""
        self.ended.set()
        for thread in self.threads:
            thread.join()
        self.ended.clear()


def check_health(answers, most_ms):
    """That each was a 200 in time."""
    check(answers and all(answer.status == 200 for answer in answers), f"/healthz: {answers}")
    slowest = max(answer.ms for answer in answers)
    check(slowest < most_ms, f"/healthz took {slowest:.0f} ms")
    return slowest
