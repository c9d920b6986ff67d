"""A device is revoked while its update is on its way. It says so by name and stops; what it has not
been able to send stays in its flash, and no update of it reaches the aggregator any more. When it
is let in again, it goes on with that very update: nothing is trained again, and the model is the
one that a PC comes to which nobody disturbs."""
import contextlib
import socket

from device import Device, examples, find, images
from harness import Aggregator, Workspace, check, main
from proxy import DATA_RECORD, HANDSHAKE, Cut, Proxy, Uploads
from test_federation import Computer, settings_of, wait_for

ROUNDS = 5
REVOKED_AT = 2  # the third update
DATA = examples(120, seed=6)
SETTINGS = {
    "federation": {"model": "softmax:64-6", "seed": 6},
    "round": {"cohort": 1, "min_clients": 1, "rounds": ROUNDS, "deadline": "1h",
              "come_back_min": "10ms", "come_back_max": "50ms"},
    "train": {"local_steps": 6, "batch_size": 8, "learning_rate": 0.1},
    "tls": {"psk": "yes"},
}


def database(aggregator):
    files = [path for path in aggregator.state.iterdir() if path.suffix == ".db"]
    check(len(files) == 1, f"the database is one of {files}")
    return files[0]


def backup(aggregator):
    return aggregator.workspace.path / "backup"


def revoke_at_once(aggregator):
    """As the dashboard does: the service itself is told, and knows when it answers. The verb writes
    into the database, and the service sees that before the next request that it handles."""
    token = (aggregator.state / "admin.token").read_text().strip()
    with socket.socket(socket.AF_UNIX) as admin:
        admin.connect(str(aggregator.workspace.path / "admin.sock"))
        admin.sendall("POST /api/v1/clients/1/revoke HTTP/1.1\r\nHost: localhost\r\n"
                      f"Authorization: Bearer {token}\r\nContent-Length: 0\r\n"
                      "Connection: close\r\n\r\n".encode())
        answer = admin.makefile("rb").readline()
        check(b" 200 " in answer, f"revoking was answered {answer}")


class Revocation(Uploads):
    """Revokes the client before the aggregator sees a byte of its third update. cuts: the connection
    ends, too."""

    def __init__(self, aggregator, cuts):
        super().__init__()
        self.aggregator, self.cuts, self.done = aggregator, cuts, False

    def update(self, connection, data, which, size, sent):
        if which == REVOKED_AT and not self.done:
            self.done = True
            self.aggregator.verb("backup", backup(self.aggregator))
            if self.cuts:
                revoke_at_once(self.aggregator)
                raise Cut()
            self.aggregator.verb("revoke", "1")


def undisturbed():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        wait_for(Computer(workspace, aggregator, "pc", DATA).start(), "tern-client")
        return aggregator.json("status")["model_sha256"]


def let_in_again(aggregator):
    """No verb does that, and who was revoked enrols anew; but an older database may be restored."""
    aggregator.kill()
    for path in aggregator.state.glob(database(aggregator).name + "-*"):
        path.unlink()
    backup(aggregator).rename(database(aggregator))
    aggregator.start()


def stops(device, port):
    said = device.run(port, ok=(1,))
    check(said[-1] == "the client: unauthorized", f"the device stopped with {said[-1]!r}")
    return said


def keeps_out(device, proxy):
    """With a key the handshake fails, which tells nothing about why: the device tries on."""
    earlier = len(proxy.connections)
    troubles = len(find(device.lines(), "failure"))
    process = device.start(proxy.port)
    device.wait_until("failure", 60, troubles + 2)
    process.kill()
    process.wait()
    return earlier


def check_silence(connections, name):
    """No request left the device, though it tried."""
    check(len(connections) >= 2, f"{name}: {len(connections)} connections")
    for connection in connections:
        check(connection.record_bytes("up", HANDSHAKE) > 0, f"{name}: no handshake")
        sent = connection.record_bytes("up", DATA_RECORD)
        check(sent == 0, f"{name}: {sent} bytes were sent after the device was revoked")


def check_stopped(device, aggregator):
    lines = device.lines()
    check(len(find(lines, "uploaded")) == REVOKED_AT, "an update was answered")
    check(len(find(lines, "trained")) == REVOKED_AT + 1, "a revoked device has trained")
    status = aggregator.json("status")
    check(status["updates_applied"] == REVOKED_AT, f"applied {status['updates_applied']} updates")


def check_goes_on(device, aggregator, port, expected):
    let_in_again(aggregator)
    device.run(port)
    lines, status = device.lines(), aggregator.json("status")
    check(not find(lines, "started-over"), "a record was damaged")
    trained = len(find(lines, "trained"))
    check(trained == ROUNDS, f"trained {trained} times for {ROUNDS} rounds")
    check(status["updates_applied"] == ROUNDS, f"applied {status['updates_applied']} updates")
    check(status["model_sha256"] == expected,
          f"the model is {status['model_sha256']}, not {expected}")


@contextlib.contextmanager
def a_federation(image, cuts):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        revocation = Revocation(aggregator, cuts)
        with Proxy(aggregator, watcher=revocation) as proxy:
            device = revocation.device = Device(workspace, image, "device",
                                                **settings_of(image, workspace, aggregator))
            device.put_data(*DATA)
            yield aggregator, device, proxy


def on_the_connection(image, expected):
    """The connection on which the update goes up outlives the revocation: the answer says it."""
    with a_federation(image, cuts=False) as (aggregator, device, proxy):
        stops(device, proxy.port)
        check_stopped(device, aggregator)
        if image.tls == "ecdsa":
            said = stops(device, proxy.port)  # and again, when it is switched on again
            check(not find(said, "task"), "a revoked device was given a task")
        else:
            earlier = keeps_out(device, proxy)
            check_silence(proxy.connections[earlier:], "a handshake in full")
        check_stopped(device, aggregator)
        check_goes_on(device, aggregator, proxy.port, expected)


def on_a_resumption(image, expected):
    """The connection is cut; the device has a session that it was given before it was revoked."""
    with a_federation(image, cuts=True) as (aggregator, device, proxy):
        if image.tls == "ecdsa":
            stops(device, proxy.port)
        else:
            process = device.start(proxy.port)
            device.wait_until("failure", 60, 2)
            process.kill()
            process.wait()
            behind = [connection.cut for connection in proxy.connections].index(True) + 1
            check_silence(proxy.connections[behind:], "a resumption")
        check_stopped(device, aggregator)
        check_goes_on(device, aggregator, proxy.port, expected)


def test():
    expected = undisturbed()
    one_of_each = {image.tls: image for image in reversed(images())}
    for image in one_of_each.values():
        on_the_connection(image, expected)
        on_a_resumption(image, expected)
        print(f"{image.name}: a revoked device stops, and keeps its update")


if __name__ == "__main__":
    main(test)
