#!/usr/bin/python3
"""What attackers do, each in a process of its own until it is killed: attackers.py NAME PORT CA TOKEN.

They come from an address of their own, and print a line when they are in full swing.
"""

import pathlib
import select
import socket
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from http_by_hand import request_bytes  # noqa: E402

SOURCE = ("127.0.0.66", 0)
SLOW = 64  # connections that bring a byte now and then
PACE = 0.01  # seconds between two bytes of all of them together
FLOODS = 8  # connections that ask without a pause
HELLOS = 64  # ClientHellos in flight
AT_ONCE = 50  # requests in one piece
HASH = "A" * 43
BAD_TOKEN = "AAAAAAAAAAAAAAAAAAAAAA"


def under_way():
    print("ready", flush=True)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=SOURCE)


class Attacker:
    def __init__(self, port, ca, token):
        self.port, self.token = port, token
        self.context = ssl.create_default_context(cafile=ca)
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.session = None

    def connect(self):
        tls = self.context.wrap_socket(connect(self.port), server_hostname="127.0.0.1",
                                       session=self.session)
        self.session = tls.session
        return tls

    def hello(self):
        """The bytes that a handshake begins with."""
        out = ssl.MemoryBIO()
        client = self.context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="127.0.0.1")
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return out.read()

    def slow(self, open_one, data):
        """Connections that send `data` byte by byte, and come again when they are closed."""
        tasks = [[open_one(), 0] for _ in range(SLOW)]
        under_way()
        while True:
            for task in tasks:
                time.sleep(PACE)
                try:
                    task[0].send(data[task[1] % len(data):][:1])
                    task[1] += 1
                except OSError:
                    task[:] = [open_one(), 0]

    def flood(self, request):
        """Connections on which requests follow each other without waiting for the answers."""
        opened = [self.connect() for _ in range(FLOODS)]
        for tls in opened:
            tls.setblocking(False)
        turns = 0
        while True:
            for i, tls in enumerate(opened):
                try:
                    tls.send(request * AT_ONCE)
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    pass
                except OSError:
                    opened[i] = self.connect()
                    opened[i].setblocking(False)
                    continue
                try:
                    while tls.recv(65536):
                        pass
                except (ssl.SSLWantReadError, OSError):
                    pass
            turns += 1
            if turns == 10:
                under_way()

    # --- The attacks

    def hellos(self):
        """Keeps ClientHellos in flight, and drops each handshake once it has cost the server its part."""
        hello = self.hello()
        poll = select.poll()
        opened = {}
        answers = 0

        def begin():
            raw = connect(self.port)
            raw.sendall(hello)
            opened[raw.fileno()] = raw
            poll.register(raw, select.POLLIN)

        for _ in range(HELLOS):
            begin()
        under_way()
        while True:
            for fd, _ in poll.poll():
                poll.unregister(fd)
                opened.pop(fd).close()
                begin()
                answers += 1

    def slow_handshakes(self):
        self.slow(lambda: connect(self.port), self.hello())

    def slow_headers(self):
        self.slow(self.connect, b"GET /healthz HTTP/1.1\r\nHost: h\r\n" + b"x: y\r\n" * 500)

    def slow_bodies(self):
        head = b"POST /v1/enroll HTTP/1.1\r\nHost: h\r\nContent-Length: 4000\r\n\r\n"

        def open_one():
            tls = self.connect()
            tls.sendall(head)
            return tls
        self.slow(open_one, b"x" * 4000)

    def one_token(self):
        self.flood(request_bytes("POST", "/v1/checkin", token=self.token, body=b"x"))

    def bad_tokens(self):
        self.flood(request_bytes("GET", f"/v1/downloads/{HASH}", token=BAD_TOKEN))


def main():
    name, port, ca, token = sys.argv[1:]
    getattr(Attacker(int(port), ca, token), name)()


if __name__ == "__main__":
    main()
