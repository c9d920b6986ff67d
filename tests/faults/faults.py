"""A federation of recognisable clients whose aggregator runs over a disk and a clock that fail to order."""

import contextlib
import errno
import itertools
import mmap
import pathlib
import signal
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from conservation import Fleet, applied_by, book, check_client, expect_progress, model, newest_version  # noqa: E402
from harness import HELPERS, LONG, Aggregator, Failure, Workspace, check  # noqa: E402

CALLS = ("read", "write", "sync", "truncate", "open", "map", "lock", "delete", "name")
KILL = 1 << 16
# What can go wrong: the call, errno or KILL, and whether half of its bytes go through first.
FAULTS = {
    "read-eio": ("read", errno.EIO, False),
    "read-short": ("read", 0, True),
    "write-enospc": ("write", errno.ENOSPC, False),
    "write-eio": ("write", errno.EIO, False),
    "write-short": ("write", errno.ENOSPC, True),
    "sync-eio": ("sync", errno.EIO, False),
    "truncate-eio": ("truncate", errno.EIO, False),
    "open-emfile": ("open", errno.EMFILE, False),
    "map-enomem": ("map", errno.ENOMEM, False),
    "lock-eio": ("lock", errno.EIO, False),
    "delete-eio": ("delete", errno.EIO, False),
    "write-kill": ("write", KILL, True),
    "sync-kill": ("sync", KILL, False),
}
# Faults of `restore` only, since a running service renames no file.
NAMING_FAULTS = {
    "delete-kill": ("delete", KILL, False),
    "name-kill": ("name", KILL, False),  # a link or a rename
}
ALL_FAULTS = FAULTS | NAMING_FAULTS | {"name-eio": ("name", errno.EIO, False)}
CLIENTS = 3
ROUNDS = 20000 if LONG else 2000
FIELDS = struct.Struct("=IIIIQQQQ18QqQ")  # struct control of fault_shim.c
CLOCK = FIELDS.size - 16
DATABASE, OTHERS = 0, 1  # the files whose calls fail


class Control:
    """What the shim is told, and what it counted."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(FIELDS.size))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), FIELDS.size)

    def arm(self, fault, at, until, files=DATABASE):
        call, error, cut = ALL_FAULTS[fault]
        struct.pack_into("=I", self.map, 12, 0)
        struct.pack_into("=III", self.map, 0, CALLS.index(call), error, cut)
        struct.pack_into("=QQQQ", self.map, 16, at, until, 0, 0)
        struct.pack_into("=Q", self.map, CLOCK + 8, files)
        struct.pack_into("=I", self.map, 12, 1)

    def disarm(self):
        struct.pack_into("=I", self.map, 12, 0)

    @property
    def failed(self):
        return FIELDS.unpack_from(self.map, 0)[7]

    def seen(self, call, files=DATABASE):
        return FIELDS.unpack_from(self.map, 0)[8 + len(CALLS) * files + CALLS.index(call)]

    def seen_during(self, scenario, files=DATABASE):
        """How many calls of each kind there are in it."""
        before = {call: self.seen(call, files) for call in CALLS}
        scenario()
        return {call: self.seen(call, files) - before[call] for call in CALLS}

    def set_clock(self, days):
        struct.pack_into("=q", self.map, CLOCK, int(days * 86400000))


class Federation:
    def __init__(self, workspace, settings=None, address="127.0.0.1", clients=()):
        """clients: the beginning of their commands."""
        self.control = Control(workspace.path / "faults")
        given = {
            "federation": {"model": model(ROUNDS), "seed": 5},
            "round": {"cohort": 2, "over_selection": 1.0, "quorum": 1, "min_clients": CLIENTS,
                      "deadline": "1500ms", "rounds": ROUNDS, "come_back_min": "20ms",
                      "come_back_max": "500ms"},
            "codec": {"error_feedback": "keep", "codec": "3lc:s=1.5"},
            "limits": {"requests_per_minute": 1000000, "connections_per_address": 5000,
                       "history_bytes": 0},
        }
        for section, keys in (settings or {}).items():
            given[section].update(keys)
        self.aggregator = Aggregator(
            workspace, given, address,
            prefix=("env", f"LD_PRELOAD={HELPERS / 'fault_shim.so'}",
                    f"TERN_FAULTS={self.control.path}")).start()
        check(self.control.seen("sync") > 0, "the shim does not see the database")
        self.fleet = Fleet(workspace, self.aggregator, CLIENTS, prefix=clients)
        self.fleet.start_all()
        self.log = workspace.path / "aggregator.log"

    def start(self):
        """The service, which may fail to."""
        try:
            self.aggregator.start()
        except Failure:
            ended = self.aggregator.process.wait(timeout=30)
            check(ended in (1, -signal.SIGKILL), f"the start ended with {ended}")

    def version(self):
        return newest_version(self.aggregator.state / "tern.db")

    def ask(self, path):
        """Status and body of the operators' listener."""
        token = (self.aggregator.state / "admin.token").read_text().strip()
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self.aggregator.workspace.path / "admin.sock"))
            return exchange(admin, path, token)

    def ask_in_public(self, path):
        context = ssl.create_default_context(cafile=self.aggregator.ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # a test's CA has no key usage, which Python 3.13 asks for
        with socket.create_connection((self.aggregator.address, self.aggregator.port), timeout=60) as raw, \
                context.wrap_socket(raw, server_hostname=self.aggregator.address) as tls:
            return exchange(tls, path)

    def expect_progress(self, after, versions=1):
        for _ in range(versions):
            expect_progress(self.aggregator, after, 1)

    def finish(self):
        """No update is missing or counted twice, and the history replays."""
        self.fleet.settle_all()
        self.aggregator.kill(signal.SIGTERM)
        self.aggregator.verb("verify")
        database = self.aggregator.state / "tern.db"
        return sum(check_client(self.fleet, index, database)[1] for index in range(CLIENTS))


def exchange(connection, path, token=""):
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                       "Connection: close\r\n\r\n".encode())
    head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


@contextlib.contextmanager
def federation(settings=None, **more):
    with Workspace() as workspace:
        yield Federation(workspace, settings, **more)


def spread(calls, count):
    """So many of them at even distances, each in the middle of its part."""
    parts = min(count, calls)
    return [(2 * part + 1) * calls // (2 * parts) + 1 for part in range(parts)]


def first_that_fails(fail, k):
    """k or, where a run has fewer calls than the one before, a smaller one; 0 = a run has none."""
    while k > 0 and not fail(k):
        k //= 2
    return k


def fail_at_every_call(fail, calls, count):
    """fail(k) lets the k-th call of a scenario fail and says whether there was one. Under `long` for every k, until
    a run has no such call any more; otherwise for so many, of about as many calls. Returns those that failed."""
    if not LONG:
        return [k for k in (first_that_fails(fail, k) for k in spread(calls, count)) if k > 0]
    return list(itertools.takewhile(fail, itertools.count(1)))


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()
