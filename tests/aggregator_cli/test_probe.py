"""probe asks the running service for its health, and `init --if-missing` leaves a federation as it is: what containers need."""
import fcntl
import hashlib
import os
import pathlib
import signal
import socket
import sys
import threading
import time

from cli import FAILED, USAGE, State, main

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import Aggregator, Workspace  # noqa: E402


def probe(state, what, address, *more, **expected):
    return state.run("probe", what, "--set", f"admin.address={address}", *more, **expected)


def asks_a_service():
    """One that runs, one that hangs, and none."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:8-2"}}).start()
        address = aggregator.settings["admin"]["address"]
        state = State()
        for what in ("alive", "ready"):
            assert probe(state, what, address).text == f"{what}\n"
        aggregator.process.send_signal(signal.SIGSTOP)
        for more in ((), ("--standby",)):
            probe(state, "alive", address, *more, code=FAILED, says="does not answer within 3 s: restart it")
        aggregator.process.send_signal(signal.SIGCONT)
        assert probe(state, "ready", address).text == "ready\n"
        aggregator.process.kill()
        aggregator.process.wait()
        for what in ("alive", "ready"):
            probe(state, what, address, code=FAILED, says=f"no service answers at admin.address = {address}")
            probe(state, what, address, "--standby", code=FAILED, says="no service runs")


def a_standby_has_a_fresh_heartbeat():
    """A service without a listener holds the lock and sets its time; here the test does both."""
    state = State()
    state.run("init", "--model", "softmax:8-2")
    address = f"unix:{state.path}/admin.sock"
    lock = state.path / "lock"
    hour = 3600
    with lock.open("w") as held:
        probe(state, "alive", address, "--standby", code=FAILED, says="no service runs")
        fcntl.flock(held, fcntl.LOCK_EX)
        for what in ("alive", "ready"):
            assert probe(state, what, address, "--standby").text == "closed\n"
            probe(state, what, address, code=FAILED, says="no service answers")
        for beat in (time.time() - hour, time.time() + hour):  # the second after the clock was set back
            os.utime(lock, (beat, beat))
            for what in ("alive", "ready"):
                probe(state, what, address, "--standby", code=FAILED, says="has sent no heartbeat for ")
        os.utime(lock)
        assert probe(state, "alive", address, "--standby").text == "closed\n"


def answer_once(listener, text):
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(text)


def tells_what_cannot_be_stored():
    """Such a service is alive, since a restart does not help it."""
    state = State()
    for what, code, says in (("ready", FAILED, "not ready: the disk is full: free space"), ("alive", 0, "")):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            answer = threading.Thread(target=answer_once, daemon=True, args=(
                listener, b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 17\r\n\r\nthe disk is full\n"))
            answer.start()
            probe(state, what, "127.0.0.1", "--set", f"admin.port={listener.getsockname()[1]}", code=code, says=says)
            answer.join()


def refuses_what_it_cannot_ask():
    state = State()
    probe(state, "well", "127.0.0.1", code=USAGE, says="probe well: give alive or ready")
    probe(state, "ready", "", code=USAGE, says="admin.address is empty")


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def init_leaves_a_federation():
    state = State()
    assert "a federation of softmax:8-2" in state.run("init", "--if-missing", "--model", "softmax:8-2").text
    before = hash_of(state.path / "tern.db")
    assert "stays as it is" in state.run("init", "--if-missing", "--model", "softmax:9-2").text
    assert hash_of(state.path / "tern.db") == before
    state.run("init", "--model", "softmax:8-2", code=FAILED, says="already holds a federation")


if __name__ == "__main__":
    main(asks_a_service, a_standby_has_a_fresh_heartbeat, tells_what_cannot_be_stored, refuses_what_it_cannot_ask, init_leaves_a_federation)
