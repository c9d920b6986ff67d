#!/usr/bin/python3
"""Devices that connect while ClientHellos flood the aggregator from their own address.

usage: handshakes.py [RATE...]

For each RATE (hellos a second; 14, 33, 100, 400 and 1000) there are two floods of SECONDS: of strangers, whose hellos show no
ticket, and of one that sends the recorded hello of a device again and again. No connection of a flood goes on after its hello.
Meanwhile devices connect from the same address, one after the other, with a full handshake, and with the ticket of
the recorded hello. A line of JSON for each flood and kind of device: tries, those that were served, and the median seconds of these.
All of it is on loopback.
"""

import json
import pathlib
import select
import socket
import ssl
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/end_to_end"))
from hand_client import HandClient  # noqa: E402
from harness import Aggregator, Workspace  # noqa: E402
from http_by_hand import Connection  # noqa: E402

RATES = (14, 33, 100, 400, 1000)
SECONDS = 12
SETTLED_S = 2  # of them before the first device comes
TIMEOUT_S = 10
THREADS = 2
ADDRESS = "127.0.0.1"


def context_of(ca):
    context = ssl.create_default_context(cafile=str(ca))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def hello_of(context, session):
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=ADDRESS, session=session)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


class Device:
    """A device that connects, checks in and disconnects; resumes its session if it has one."""

    def __init__(self, client, context, resumes):
        self.client, self.context, self.resumes, self.session = client, context, resumes, None

    def visit(self):
        """Returns the seconds of a check-in; None: it failed."""
        begin = time.monotonic()
        connection = Connection.__new__(Connection)
        try:
            raw = socket.create_connection((ADDRESS, self.client.port), timeout=TIMEOUT_S)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.tls = self.context.wrap_socket(raw, server_hostname=ADDRESS, session=self.session)
            with connection:
                self.session = connection.tls.session if self.resumes else None
                status, _, _ = self.client.checkin(connection, replica=self.client.seed_replica())
        except OSError:
            return None
        return time.monotonic() - begin if status == 200 else None


def flood(port, rate, hello):
    """Sends hellos from a process of its own; keeps connections open until the aggregator closes them."""
    poll, opened = select.poll(), {}
    begin, sent = time.monotonic(), 0
    while time.monotonic() - begin < SECONDS:
        due = int((time.monotonic() - begin) * rate)
        while sent < due:
            sent += 1
            raw = socket.socket()
            raw.setblocking(False)
            try:
                raw.connect((ADDRESS, port))
            except BlockingIOError:
                pass
            opened[raw.fileno()] = raw
            poll.register(raw, select.POLLOUT)
        for fd, events in poll.poll(5):
            if events & select.POLLOUT:
                try:
                    opened[fd].send(hello)
                    poll.modify(fd, select.POLLHUP)
                    continue
                except OSError:
                    pass
            poll.unregister(fd)
            opened.pop(fd).close()
    print(json.dumps({"sent": sent}), flush=True)


def measure(aggregator, device, rate, hello):
    attacker = subprocess.Popen([sys.executable, __file__, "--flood", str(aggregator.port), str(rate), hello.hex()],
                                stdout=subprocess.PIPE, text=True)
    begin, times = time.monotonic(), []
    try:
        time.sleep(SETTLED_S)
        while time.monotonic() - begin < SECONDS - TIMEOUT_S / 10:
            times.append(device.visit())
            time.sleep(0.1)
    finally:
        attacker.wait()
    served = [seconds for seconds in times if seconds is not None]
    return {"tries": len(times), "served": len(served),
            "median_s": round(statistics.median(served), 3) if served else None}


def main(rates):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:4-2"}, "round": {"min_clients": 1000}, "server": {"threads": THREADS},
            "limits": {"requests_per_minute": 0, "enrollments_per_minute": 0}}).start()
        context = context_of(aggregator.ca)
        client = HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())
        resuming, full = Device(client, context, True), Device(client, context, False)
        for rate in rates:
            resuming.session = None
            resuming.visit()
            for name, hello in (("strangers", hello_of(context, None)), ("replayed", hello_of(context, resuming.session))):
                for kind, device in (("full", full), ("resumed", resuming)):
                    print(json.dumps({"rate": rate, "flood": name, "device": kind, **measure(aggregator, device, rate, hello)}),
                          flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--flood"]:
        flood(int(sys.argv[2]), float(sys.argv[3]), bytes.fromhex(sys.argv[4]))
    else:
        main([float(rate) for rate in sys.argv[1:]] or RATES)
