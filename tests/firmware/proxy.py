"""What stands between a device and its aggregator in tests: it listens, and cuts when told to."""
import socket
import threading

from device import find

HANDSHAKE, DATA_RECORD = 22, 23  # RFC 5246, section 6.2.1


class Connection:
    """The bytes that passed each way, and how many may come down before it is cut."""

    def __init__(self, server, limit):
        self.server, self.limit, self.cut = server, limit, False
        self.up, self.down = b"", b""

    def records(self, direction):
        """(kind, bytes so far, whether it is whole) of each TLS record, heads included."""
        stream = self.up if direction == "up" else self.down
        at = 0
        while at + 5 <= len(stream):
            end = at + 5 + int.from_bytes(stream[at + 3:at + 5], "big")
            yield stream[at], min(end, len(stream)) - at, end <= len(stream)
            at = end

    def record_bytes(self, direction, kind):
        return sum(size for its, size, _ in self.records(direction) if its == kind)


class Cut(Exception):
    """Ends a connection. Nothing more goes either way."""


class Watcher:
    """Sees what passes, before it passes; may raise Cut."""

    def up(self, connection, data):
        pass

    def down(self, connection, data):
        pass


class Uploads(Watcher):
    """Knows by the device's log when what passes is an update, or the answer to one: the log says
    that an update is encoded before a byte of it leaves, and that it was answered after that."""

    def __init__(self):
        self.device = None
        self.before = {}  # by connection: bytes of requests that went up before this update

    def pending(self):
        """(which update, its bytes) that is on its way; the first is 0. None: there is none."""
        lines = self.device.lines()
        encoded, uploaded = find(lines, "encoded"), find(lines, "uploaded")
        if len(encoded) == len(uploaded):
            return None
        return len(encoded) - 1, int(encoded[-1]["bytes"])

    def up(self, connection, data):
        sent = connection.record_bytes("up", DATA_RECORD)
        pending = self.pending()
        if pending is None:
            self.before[connection] = sent
        elif sent > self.before.get(connection, 0):
            self.update(connection, data, *pending, sent - self.before.get(connection, 0))

    def down(self, connection, data):
        pending = self.pending()
        if pending is not None and data[0] == DATA_RECORD:
            self.answer(connection, pending[0])

    def update(self, connection, data, which, size, sent):
        """data, which ends what is now `sent` bytes of the records with update `which`, of `size`."""

    def answer(self, connection, which):
        """The aggregator has answered update `which`."""


class Proxy:
    """Cuts the n-th connection behind limits[n] bytes of what comes down; None: never."""

    def __init__(self, aggregator, limits=(), watcher=None):
        self.aggregator, self.limits, self.connections = aggregator, list(limits), []
        self.watcher = watcher if watcher is not None else Watcher()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                device, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.aggregator.port))
            except OSError:
                device.close()
                continue
            connection = Connection(server, self.limits.pop(0) if self.limits else None)
            self.connections.append(connection)
            for pump in (self._up, self._down):
                threading.Thread(target=pump, args=(connection, device, server),
                                 daemon=True).start()

    def _up(self, connection, device, server):
        try:
            while data := device.recv(65536):
                connection.up += data
                self.watcher.up(connection, data)
                server.sendall(data)
        except Cut:
            connection.cut = True
        except OSError:
            pass
        finally:  # whatever a watcher found wrong
            self._end(device, server)

    def _down(self, connection, device, server):
        try:
            while data := server.recv(65536):
                if connection.limit is not None:
                    data = data[:connection.limit - len(connection.down)]
                connection.down += data
                self.watcher.down(connection, data)
                device.sendall(data)
                if len(connection.down) == connection.limit:
                    raise Cut()
        except Cut:
            connection.cut = True
        except OSError:
            pass
        finally:  # whatever a watcher found wrong
            self._end(device, server)

    @staticmethod
    def _end(*ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
