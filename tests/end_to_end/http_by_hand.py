"""HTTPS requests made byte by byte, so that a test can stop in the middle of one."""

import socket
import ssl


class Connection:
    def __init__(self, port, ca, address="127.0.0.1"):
        self.reaches = port, ca, address
        context = ssl.create_default_context(cafile=str(ca))
        # The CA of a test has no key usage, which Python 3.13 asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        raw = socket.create_connection((address, port), timeout=60)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls = context.wrap_socket(raw, server_hostname=address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tls.close()

    def open_again(self):
        self.tls.close()
        self.__init__(*self.reaches)

    def send(self, data):
        self.tls.sendall(data)

    def receive(self):
        """One whole response: (status, headers, body)."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.tls.recv(65536)
            if not piece:
                raise ConnectionError("closed before the headers ended")
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = dict((k.lower(), v.strip()) for k, v in
                       (line.split(":", 1) for line in lines[1:]))
        length = int(headers.get("content-length", "0"))
        while len(body) < length:
            piece = self.tls.recv(65536)
            if not piece:
                raise ConnectionError("closed before the body ended")
            body += piece
        return int(lines[0].split()[1]), headers, body

    def request(self, *arguments, **named):
        self.send(request_bytes(*arguments, **named))
        return self.receive()


def request_bytes(method, path, token=None, body=b"", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    lines.extend(headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body
