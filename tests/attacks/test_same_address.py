#!/usr/bin/python3
"""Strangers that hold every place of an address, in each of several ways, and devices behind the same address. None is
shut out: neither one that comes for the first time, nor one that has a token, nor one that resumes its session. Without a
place its connection is closed at once, without a turn after limits.handshake's 10 s: no wall time is judged here. The last
gets in also where each stranger that is ended comes again at once, at its first try: its hello follows its connection before
the next stranger comes, and on the one loop at most 64 are accepted before it is read, fewer than half of the places."""

import pathlib
import select
import socket
import ssl
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import harness  # noqa: E402
from attackers import Attacker  # noqa: E402
from hand_client import HandClient  # noqa: E402
from harness import PATIENCE, Aggregator, Workspace, check  # noqa: E402
from http_by_hand import Connection  # noqa: E402

PLACES = 256  # of an address, by default
STRANGERS = 2 * PLACES  # that come again
SOURCE = "127.0.0.1"  # of the strangers, and of the devices
VISITS = 3
PACE_S = 0.005  # between two that come again
arriving = threading.Lock()  # held by one that connects


class Resuming(Connection):
    """A connection of a device that keeps its TLS session, as tern-client does."""
    session = None

    def __init__(self, port, ca):
        context = Resuming.context_of(ca)
        with arriving:
            raw = socket.create_connection((SOURCE, port), timeout=PATIENCE)
            raw.setblocking(False)
            self.tls = context.wrap_socket(raw, server_hostname=SOURCE, session=Resuming.session,
                                           do_handshake_on_connect=False)
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:  # the hello is sent
                pass
        self.tls.settimeout(PATIENCE)
        self.tls.do_handshake()
        Resuming.session = self.tls.session

    @classmethod
    def context_of(cls, ca):
        if not hasattr(cls, "context"):
            cls.context = ssl.create_default_context(cafile=str(ca))
            cls.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            cls.context.maximum_version = ssl.TLSVersion.TLSv1_2
        return cls.context


class Strangers:
    """So many connections, until they are told to stop; they come again or not where they are ended."""

    def __init__(self, aggregator, begin, count, come_again):
        self.count, self.come_again = count, come_again
        self.attacker = Attacker(aggregator.port, aggregator.ca, None)
        self.begin_one = begin
        self.stops = False
        self.begun = 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        poll = select.poll()
        opened = {}

        def begin():
            try:
                with arriving:
                    connection = self.begin_one(self.attacker)
            except OSError:  # displaced before its handshake was over
                return
            opened[connection.fileno()] = connection
            poll.register(connection, select.POLLRDHUP)  # and POLLERR

        while not self.stops:
            begins = len(opened) < self.count and (self.come_again or self.begun < self.count)
            if begins:
                begin()
                self.begun += 1
            for fd, _ in poll.poll(0 if self.begun < self.count else PACE_S * 1000):
                poll.unregister(fd)
                opened.pop(fd).close()
        for connection in opened.values():
            connection.close()

    def __enter__(self):
        self.thread.start()
        end = time.monotonic() + PATIENCE
        while self.begun < self.count:
            check(time.monotonic() < end, "the strangers do not get on")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.stops = True
        self.thread.join()


def raw(attacker):
    connection = socket.create_connection((SOURCE, attacker.port), timeout=PATIENCE)
    connection.setblocking(False)
    return connection


def silent(attacker):
    return raw(attacker)


def stalled(attacker):
    """It begins a handshake and goes no further than the server's part of it, which it does not read."""
    connection = raw(attacker)
    connection.send(attacker.hello())
    return connection


def idle(attacker):
    tls = attacker.connect(SOURCE)
    tls.setblocking(False)
    return tls


def in_a_request(attacker):
    tls = attacker.connect(SOURCE)
    tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\nx:")
    tls.setblocking(False)
    return tls


def asking(attacker):
    """One that has had an answer: it has done something whole."""
    tls = attacker.connect(SOURCE)
    tls.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
    tls.recv(4096)
    tls.setblocking(False)
    return tls


def visit(device, connect):
    begin = time.monotonic()
    try:
        with connect(device.port, device.ca) as connection:
            status, _, _ = device.checkin(connection, replica=device.seed_replica())
    except OSError as ended:
        raise harness.Failure(f"a device is shut out after {time.monotonic() - begin:.3f} s ({connect.__name__}): {ended}") from ended
    check(status == 200, f"a check-in is answered {status}")


def displaced(aggregator):
    return aggregator.metrics()["tern_http_connections_displaced_total"]


def wait_until_full(aggregator, before):
    """Connections that wait in the listener's queue have begun without a place: only the aggregator's own count shows that
    strangers had every place of the address."""
    end = time.monotonic() + harness.PATIENCE
    while displaced(aggregator) < before + STRANGERS - PLACES:
        check(time.monotonic() < end, "the strangers did not fill the address")
        time.sleep(0.01)


def test():
    ways = (silent, stalled, idle, in_a_request, asking)
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:4-2"},
            "round": {"min_clients": 1000},
            "server": {"threads": 1},
            "limits": {"connections_per_address": PLACES, "requests_per_minute": 0, "enrollments_per_minute": 0},
        }).start()
        code = aggregator.join_code(uses=1 + len(ways))
        device = HandClient(aggregator.port, aggregator.ca).enroll(code)
        visit(device, Resuming)
        for way in ways:
            begin = time.monotonic()
            with Strangers(aggregator, way, PLACES, come_again=False):
                HandClient(aggregator.port, aggregator.ca).enroll(code)
                visit(device, Connection)
                visit(device, Resuming)
            before = displaced(aggregator)
            with Strangers(aggregator, way, STRANGERS, come_again=True):
                wait_until_full(aggregator, before)
                for _ in range(VISITS):
                    visit(device, Resuming)
            print(f"{way.__name__}: {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(harness.main(test))
