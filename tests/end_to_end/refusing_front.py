"""Stands in the aggregator's place with its certificate, and refuses every request."""
import socket
import ssl
import struct
import threading

BUSY = (b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 30\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


class RefusingFront:
    """folder: of server.crt and server.key. resets: it resets connections after the first bytes of a handshake; otherwise it
    answers 503 with a Retry-After of 30 s."""

    def __init__(self, folder, resets=False):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "server.crt", folder / "server.key")
        self.resets = resets
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        if self.resets:
            near.recv(1)
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            near.close()
            return
        try:
            with self.context.wrap_socket(near, server_side=True) as stream:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += stream.recv(4096) or b"\r\n\r\n"
                stream.sendall(BUSY)
                while stream.recv(4096):  # a close with unread bytes would reset the connection before the answer arrives
                    pass
        except OSError:
            pass
