"""A proxy between a client and a server that cuts its connections."""

import socket
import struct
import threading

PIECE = 120_000  # bytes that a connection carries up before it is cut


class CuttingProxy:
    """Cuts each connection once it carried PIECE bytes up; with `hold`, leaves it hanging instead."""

    def __init__(self, port):
        self.target = port
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
            threading.Thread(target=self.up, args=(near, far), daemon=True).start()
            threading.Thread(target=self.down, args=(far, near), daemon=True).start()

    def up(self, near, far):
        passed = 0
        try:
            while passed < PIECE and (data := near.recv(min(16_384, PIECE - passed))):
                far.sendall(data)
                passed += len(data)
                with self.lock:
                    self.passed += len(data)
        except OSError:
            pass
        if passed == PIECE:
            self.cuts += 1
            # A reset, as a router sends that forgot the connection: libcurl would repeat the request by itself.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self.hold:
                self.hanging = (near, far)
                self.held.set()
                return  # with both ends open
            near.close()
        self.end(near, far)

    def down(self, far, near):
        try:
            while data := far.recv(65_536):
                near.sendall(data)
        except OSError:
            pass
        self.end(far, near)

    @staticmethod
    def end(*sockets):
        for one in sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
