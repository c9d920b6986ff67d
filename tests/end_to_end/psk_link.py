"""Requests over TLS with a pre-shared key. Python's ssl has none before 3.13, so openssl s_client
carries the bytes; what it says of the connection comes before the first reply."""

import re
import selectors
import subprocess
import time

from http_by_hand import request_bytes

LIMIT_S = 15


class PskConnection:
    """resume, keep: files that a session is resumed from, or kept in."""

    def __init__(self, port, identity, key, resume=None, keep=None):
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_2",
                   "-cipher", "ECDHE-PSK-CHACHA20-POLY1305", "-psk_identity", str(identity),
                   "-psk", key, "-ign_eof", "-nocommands"]
        command += ["-sess_in", str(resume)] if resume else []
        command += ["-sess_out", str(keep)] if keep else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.said = b""  # before the first reply
        self.data = b""  # of the reply that is coming

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def more(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(LIMIT_S):
                raise ConnectionError("no answer")
        piece = self.process.stdout.read1(65536)
        if not piece:
            raise ConnectionError(self.said.decode(errors="replace")[-500:])
        return piece

    def find_start(self):
        while b"HTTP/1.1 " not in self.data:
            self.data += self.more()
            self.said = self.data
        self.data = self.data[self.data.index(b"HTTP/1.1 "):]

    def request(self, *arguments, **named):
        """(status, body); None when there is no answer: the handshake failed, or the peer left."""
        try:
            self.process.stdin.write(request_bytes(*arguments, **named))
            self.process.stdin.flush()
            self.find_start()
            while b"\r\n\r\n" not in self.data:
                self.data += self.more()
            head, _, body = self.data.partition(b"\r\n\r\n")
            length = re.search(rb"\r\nContent-Length: (\d+)", head)
            length = int(length[1]) if length else 0
            while len(body) < length:
                body += self.more()
        except (ConnectionError, BrokenPipeError):
            return None
        self.data = body[length:]
        return int(head.split()[1]), body[:length]

    @property
    def resumed(self):
        return b"\nReused, TLSv1.2" in self.said

    @property
    def alert(self):
        """Number of the alert that ended the handshake; None when there was none."""
        found = re.search(rb"SSL alert number (\d+)", self.said)
        return int(found[1]) if found else None


def wait_for(condition, seconds=60):
    """True once condition() is, within the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False
