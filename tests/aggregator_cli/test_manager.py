"""What a service tells the manager that started it, as systemd hears it, and how it ends what is under way."""
import os
import pathlib
import select
import signal
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from hand_client import HandClient  # noqa: E402
from harness import Aggregator, Workspace, check, main  # noqa: E402
from http_by_hand import request_bytes  # noqa: E402
from protobuf import message  # noqa: E402


class Manager:
    """The socket that a service manager listens on."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        self.socket.settimeout(60)
        self.heard = []

    def drain(self):
        """Takes what has come: there is room for few messages, and one that finds none is lost."""
        self.socket.setblocking(False)
        try:
            while True:
                self.heard.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            self.socket.settimeout(60)

    def wait_for(self, words):
        """The first message with these words that was not waited for before."""
        while True:
            message = self.socket.recv(4096).decode()
            self.heard.append(message)
            if words in message:
                return message


def start(aggregator, manager, watchdog_ms):
    os.environ.update(NOTIFY_SOCKET=manager.socket.getsockname(), WATCHDOG_USEC=str(watchdog_ms * 1000))
    os.environ.pop("WATCHDOG_PID", None)  # the one who starts it is another process than it becomes
    aggregator.start()


def refuses_newcomers(port):
    with socket.socket() as newcomer:
        return newcomer.connect_ex(("127.0.0.1", port)) != 0


def finishes_what_is_under_way(aggregator, client, manager):
    whole = request_bytes("POST", "/v1/checkin", token=client.token,
                          body=client.checkin_body(replica=client.seed_replica()),
                          headers=["Expect: 100-continue"])
    with client.connect() as under_way, client.connect() as idle, client.connect() as silent:
        client.checkin(idle, replica=client.seed_replica())
        silent.send(whole[:20])  # not even a head: not waited for
        under_way.send(whole[:whole.index(b"\r\n\r\n") + 4])
        check(under_way.receive()[0] == 100, "its head is not taken")
        under_way.send(whole[whole.index(b"\r\n\r\n") + 4:-5])
        manager.drain()
        aggregator.process.send_signal(signal.SIGTERM)
        manager.wait_for("STOPPING=1")
        check(idle.tls.recv(1) == b"", "an idle connection is kept")
        deadline = time.monotonic() + 60
        while not refuses_newcomers(aggregator.port):
            check(time.monotonic() < deadline, "newcomers are let in")
        under_way.send(whole[-5:])
        status, headers, _ = under_way.receive()
        check(status == 200 and headers.get("connection") == "close", f"{status} {headers}")
    aggregator.process.wait(timeout=60)


def fill(pipe):
    """Writes until nothing fits."""
    for piece in (bytes(4096), b"\n"):
        try:
            while True:
                os.write(pipe, piece)
        except BlockingIOError:
            pass


def a_thread_that_hangs_starves_the_watchdog():
    """The reader of the log stops reading: the service thread waits for it, and the manager is not told any more
    that it lives; then it reads again."""
    with Workspace() as workspace:
        manager = Manager(workspace.path)
        log = workspace.path / "log.pipe"
        os.mkfifo(log)
        pipe = os.open(log, os.O_RDWR | os.O_NONBLOCK)
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}},
                                prefix=("sh", "-c", f'exec "$@" 2>"{log}"', "sh"))
        start(aggregator, manager, watchdog_ms=1500)
        manager.wait_for("WATCHDOG=1")
        code = aggregator.join_code()
        fill(pipe)
        with HandClient(aggregator.port, aggregator.ca).connect() as connection:
            # An enrolment has a line in the log.
            connection.send(request_bytes("POST", "/v1/enroll", body=message(f1=code, f2="x", f3="t")))
            manager.drain()
            # Every half second; a thread that lives takes a turn a second, and what turns were taken before
            # is told within another.
            told, deadline = [], time.monotonic() + 60
            while len(told) < 4 or any("WATCHDOG=1" in words for words in told[-4:]):
                check(time.monotonic() < deadline, f"it hangs and says {told}")
                told.append(manager.wait_for("STATUS="))
            while select.select([pipe], [], [], 0)[0]:
                os.read(pipe, 65536)
            check(connection.receive()[0] == 200, "the enrolment is not answered")
        manager.wait_for("WATCHDOG=1")
        aggregator.kill(signal.SIGTERM)
        os.close(pipe)


def test():
    a_thread_that_hangs_starves_the_watchdog()
    with Workspace() as workspace:
        manager = Manager(workspace.path)
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}})
        start(aggregator, manager, watchdog_ms=1500)
        check(manager.wait_for("READY=1") == manager.heard[0], f"before it was ready it said {manager.heard}")
        check("no round is open" in manager.wait_for("STATUS="), f"{manager.heard}")
        for _ in range(2):  # at most one may be of turns that were taken before the first look
            manager.wait_for("WATCHDOG=1")
        aggregator.process.send_signal(signal.SIGHUP)
        check("MONOTONIC_USEC=" in manager.wait_for("RELOADING=1"), f"{manager.heard[-1]}")
        manager.wait_for("READY=1")
        client = HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())
        finishes_what_is_under_way(aggregator, client, manager)


main(test)
