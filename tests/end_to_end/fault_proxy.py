"""A TCP proxy on loopback that cuts connections at seeded random byte positions.

Cutting the way down after the request has passed is a reply lost after the
commit: the aggregator has acknowledged what the client never heard of.
"""

import contextlib
import random
import socket
import threading


class FaultProxy:
    def __init__(self, target_ports, seed, cut_probability):
        """target_ports: one, or several, of which a connection goes to any that takes it."""
        self.target_ports = target_ports if isinstance(target_ports, list) else [target_ports]
        self.random = random.Random(seed)
        self.cut_probability = cut_probability
        self.cuts = 0
        self.connections = 0
        self.lock = threading.Lock()
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def go_to(self, target_ports):
        """From here on, and with what is connected, as a proxy does that asks who is ready."""
        with self.lock:
            self.target_ports = target_ports
            ends = list(self.open)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _fate(self):
        """Bytes that may pass up and down before the cut; None = all."""
        with self.lock:
            self.connections += 1
            if self.random.random() >= self.cut_probability:
                return None, None
            if self.random.random() < 0.5:
                return self.random.randrange(1, 4000), None
            return None, self.random.randrange(1, 4000)

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self):
        with self.lock:
            ports = self.random.sample(self.target_ports, len(self.target_ports))
        for port in ports:
            try:
                return self.connect_to(port)
            except OSError:
                pass
        return None

    @staticmethod
    def connect_to(port):
        connection = socket.create_connection(("127.0.0.1", port), timeout=5)
        connection.settimeout(None)
        return connection

    def _serve(self, client):
        server = self._connect()
        if server is None:
            client.close()
            return
        up, down = self._fate()
        ends = (client, server)
        with self.lock:
            self.open.update(ends)
        threading.Thread(target=self._pump, args=(client, server, up, ends), daemon=True).start()
        self._pump(server, client, down, ends)

    def _pump(self, source, sink, limit, ends):
        passed = 0
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if limit is not None and passed + len(data) >= limit:
                    sink.sendall(data[:limit - passed])
                    with self.lock:
                        self.cuts += 1
                    break
                sink.sendall(data)
                passed += len(data)
        except OSError:
            pass
        with self.lock:
            self.open.difference_update(ends)
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()
