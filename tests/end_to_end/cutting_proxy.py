"""A proxy between a client and a server that cuts its connections."""

import socket
import struct
import threading

PIECE = 120_000  # bytes that a connection carries one way before it is cut


class CuttingProxy:
    """Cuts each connection once it carried PIECE bytes up, or `down`; with `hold`, leaves it hanging instead.

    `passed` are the bytes that went that way."""

    def __init__(self, port, down=False):
        self.target = port
        self.cuts_down = down
        self.hold = False
        self.passed = self.cuts = self.connections = 0
        self.lock = threading.Lock()
        self.door = threading.Lock()  # whoever holds it lets new connections wait
        self.held = threading.Event()
        self.hanging = ()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            try:
                with self.door:
                    far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # the aggregator is not there
                near.close()
                continue
            self.connections += 1
            up, down = (self.pass_on, self.pass_piece) if self.cuts_down else (self.pass_piece, self.pass_on)
            threading.Thread(target=up, args=(near, far), daemon=True).start()
            threading.Thread(target=down, args=(far, near), daemon=True).start()

    def pass_piece(self, source, sink):
        passed = 0
        try:
            while passed < PIECE and (data := source.recv(min(16_384, PIECE - passed))):
                sink.sendall(data)
                passed += len(data)
                with self.lock:
                    self.passed += len(data)
        except OSError:
            pass
        if passed == PIECE:
            self.cuts += 1
            # A reset, as a router sends that forgot the connection: libcurl would repeat the request by itself. What
            # was passed on arrives all the same.
            source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self.hold:
                self.hanging = (source, sink)
                self.held.set()
                return  # with both ends open
            source.close()
        self.end(source, sink)

    def pass_on(self, source, sink):
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
        except OSError:
            pass
        self.end(source, sink)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
