"""An update over a link that needs several times client.timeout for it: it arrives in one go as long
as something moves, and a link that stops is given up after client.timeout."""
import pathlib
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

SLOW, FAST = 30000, 600000  # bytes per second
PIECE = 3000
STALL_AT = 100000
LINK_BUFFER = 16384


class SlowLink:
    """A proxy that reads what goes up at a rate, so that the client's kernel has to wait with it. The
    first connection that carries STALL_AT bytes stops there for `stall` seconds."""

    def __init__(self, port, rate, stall=0):
        self.target = port
        self.rate = rate
        self.stall = stall
        self.connections = 0
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LINK_BUFFER)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            self.connections += 1
            far = socket.create_connection(("127.0.0.1", self.target))
            for pump, source, sink in ((self.up, near, far), (self.down, far, near)):
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()

    def up(self, source, sink):
        passed = 0
        while data := self.receive(source, PIECE):
            passed += len(data)
            time.sleep(len(data) / self.rate)
            if self.stall and passed > STALL_AT:
                pause, self.stall = self.stall, 0
                time.sleep(pause)
            self.send(sink, data)
        sink.close()

    def down(self, source, sink):
        while data := self.receive(source, 65536):
            self.send(sink, data)
        sink.close()

    @staticmethod
    def receive(source, most):
        try:
            return source.recv(most)
        except OSError:
            return b""

    @staticmethod
    def send(sink, data):
        try:
            sink.sendall(data)
        except OSError:
            pass


def once(workspace, aggregator, link, options):
    start = time.monotonic()
    command = [BIN / "tern-client", "once"]
    settings = [f"client.server=https://127.0.0.1:{link.port}", f"client.ca={aggregator.ca}",
                f"client.state_dir={workspace.path}/client", "client.timeout=2s", "client.wait=0",
                "client.retry_min=100ms", "data.source=digits:train=200,test=50,size=16", *options]
    for setting in settings:
        command += ["--set", setting]
    if not (workspace.path / "client").exists():
        subprocess.run([BIN / "tern-client", "enroll", aggregator.join_code(), *command[2:]],
                       check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    check(done.returncode == 0, f"once exited {done.returncode}: {done.stderr}")
    return done.stderr, time.monotonic() - start


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-256-10", "seed": 3},  # 68,000 values, 273 KB
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "5m", "rounds": 5},
            "train": {"local_steps": 1, "batch_size": 8, "learning_rate": 0.05},
            "codec": {"codec": "float32"},
        }).start()
        link = SlowLink(aggregator.port, SLOW)
        said, seconds = once(workspace, aggregator, link, [])
        check("event=failure" not in said, f"a slow link was given up: {said}")
        check(seconds > 6, f"the link was not slow: {seconds:.1f} s")
        stalled = SlowLink(aggregator.port, FAST, stall=60)
        said, seconds = once(workspace, aggregator, stalled, [])
        check(said.count("event=failure") == 1 and "no byte was sent or received for 2000 ms" in said,
              f"the link that stopped was not given up once: {said}")
        check("answer=accepted" in said and seconds < 60, f"{seconds:.1f} s: {said}")


main(test)
