#!/usr/bin/python3
"""What attackers do, each in a process of its own until it is killed: attackers.py NAME PORT CA TOKEN.

They come from an address of their own, or from many, and print a line when they are in full swing. TOKEN is
that of a client which has a task of round 1.
"""

import pathlib
import select
import socket
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from http_by_hand import request_bytes  # noqa: E402
from protobuf import message, varint  # noqa: E402

SOURCE = "127.0.0.66"
STRANGERS = [f"127.0.0.{100 + i}" for i in range(40)]
CONNECTIONS = 8  # of each of them
SLOW = 64  # connections that bring a byte now and then
PACE = 0.01  # seconds between two bytes of all of them together
FLOODS = 8  # connections that ask without a pause
HELLOS = 64  # ClientHellos in flight
AT_ONCE = 50  # requests in one piece
UNFINISHED = (60_000, 270_000)  # bytes of bodies that lack their last: one is kept in memory, one in a file
ENORMOUS = 2 ** 62  # what a varint of 64 bits can claim
HASH = "A" * 43
BAD_TOKEN = "AAAAAAAAAAAAAAAAAAAAAA"


def under_way():
    print("ready", flush=True)


def connect(port, source=SOURCE):
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))


def head_of(method, path, token, length):
    """A request of which only the headers come."""
    lines = [f"{method} {path} HTTP/1.1", "Host: h", f"Content-Length: {length}"]
    lines += [] if token is None else [f"Authorization: Bearer {token}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Attacker:
    def __init__(self, port, ca, token):
        self.port, self.token = port, token
        self.context = ssl.create_default_context(cafile=ca)
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.session = None

    def connect(self, source=SOURCE):
        tls = self.context.wrap_socket(connect(self.port, source), server_hostname="127.0.0.1",
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

    def one_by_one(self, requests):
        """Sends them in turn and reads what is answered, again and again; anew where that ends the connection."""
        turns = 0
        tls = self.connect()
        while True:
            for request in requests:
                time.sleep(PACE)
                try:
                    tls.sendall(request)
                    ended = tls.recv(65536) == b""
                except OSError:
                    ended = True
                if ended:
                    tls.close()
                    tls = self.connect()
            turns += 1
            if turns == 1:
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

    def idle_strangers(self):
        """More connections than there are places, each of which comes again when it is ended."""
        poll = select.poll()
        opened = {}

        def begin(source):
            try:
                tls = self.connect(source)
            except OSError:  # the listener has no place for it
                return False
            opened[tls.fileno()] = tls, source
            poll.register(tls, select.POLLIN)
            return True

        for source in STRANGERS * CONNECTIONS:
            begin(source)
        under_way()
        while True:
            for fd, _ in poll.poll():
                poll.unregister(fd)
                tls, source = opened.pop(fd)
                tls.close()
                time.sleep(PACE)
                while not begin(source):
                    time.sleep(PACE)

    def unfinished_puts(self):
        """Bodies of the open round that lack their last byte, on more connections than a client may have."""
        opened = []
        turns = 0
        while True:
            for length in UNFINISHED:
                try:
                    tls = self.connect()
                    opened.append(tls)
                    tls.sendall(head_of("PUT", "/v1/updates/1/1", self.token, length) + b"x" * (length - 1))
                except OSError:  # it was ended for a newer one
                    pass
                while len(opened) > HELLOS:
                    opened.pop(0).close()
            turns += 1
            if turns == 10:
                under_way()

    def bombs(self):
        """Requests that are small and claim to be enormous: by their headers, and by their content."""
        put = "/v1/updates/1/1"
        heads = [head_of(method, path, token, length)
                 for method, path, token in (("PUT", put, self.token), ("POST", "/v1/checkin", self.token),
                                             ("POST", "/v1/enroll", None))
                 for length in (10 ** 9, 10 ** 15, 2 ** 64 - 1, 2 ** 64, 10 ** 30)]
        claims = [varint(ENORMOUS), varint(2 ** 31)]
        # Whatever payload it is (docs/FORMAT.md, section 3), its first numbers are the largest.
        containers = [*claims, *(varint(1 + 4 * len(claim)) + bytes([mode]) + 4 * claim
                                 for mode in range(0x40) for claim in claims)]
        bodies = [message(f2=10, f15=container) for container in containers]
        bodies += [bytes([15 << 3 | 2]) + claim for claim in claims]  # a field of that length
        self.one_by_one(heads + [request_bytes("PUT", put, token=self.token, body=body) for body in bodies])

    def refused(self):
        """What nobody serves, of strangers and of a client: each could be a line of the log."""
        self.flood(request_bytes("GET", "/nothing") + request_bytes("DELETE", "/v1/checkin") +
                   request_bytes("PUT", "/v1/updates/4000000000/1", token=self.token, body=b"x") +
                   request_bytes("GET", "/nothing", token=BAD_TOKEN))

    def one_token(self):
        self.flood(request_bytes("POST", "/v1/checkin", token=self.token, body=b"x"))

    def bad_tokens(self):
        self.flood(request_bytes("GET", f"/v1/downloads/{HASH}", token=BAD_TOKEN))


def main():
    name, port, ca, token = sys.argv[1:]
    getattr(Attacker(int(port), ca, token), name)()


if __name__ == "__main__":
    main()
