"""tern-client once, as cron runs it: the aggregator keeps the next round's task until the client runs again, so that the
round does not wait for a device that trains nothing between two runs. An aggregator that restarts, a broken handshake and a
busy aggregator cost no visit."""
import json
import pathlib
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run


class Device:
    def __init__(self, workspace, aggregator, name, *options):
        settings = [f"client.server={aggregator.url}", f"client.ca={aggregator.ca}", "client.wait=30s",
                    f"client.state_dir={workspace.path}/{name}", "data.source=digits:train=200,test=50,size=16", *options]
        self.settings = [part for one in settings for part in ("--set", one)]
        run(BIN / "tern-client", "enroll", aggregator.join_code(), *self.settings)

    def once(self, *options, code=0):
        settings = [part for one in options for part in ("--set", one)]
        done = subprocess.run([BIN / "tern-client", "once", "--json", *self.settings, *settings], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        check(done.returncode == code, f"once exited {done.returncode}: {done.stderr}")
        return json.loads(done.stdout), done.stderr


class Stand:
    """Stands in front of the aggregator: `begin` handles the first connections, the others pass."""

    def __init__(self, port, *begin):
        self.target, self.begin = port, list(begin)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            if self.begin:
                self.begin.pop(0)(near)
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=ends, daemon=True).start()

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def eof(near):
    near.recv(4096)  # the ClientHello


def reset(near):
    near.recv(4096)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def busy(folder, wait_s):
    """Answers one request by 503, without a sentence, as a proxy does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")

    def answer(near):
        with context.wrap_socket(near, server_side=True) as stream:
            stream.recv(4096)
            stream.sendall(f"HTTP/1.1 503 Busy\r\nRetry-After: {wait_s}\r\nContent-Length: 0\r\n\r\n".encode())
            stream.recv(4096)
    return answer


def failures_cost_no_visit(workspace, aggregator, device):
    for begin, result in ((eof, "network"), (reset, "network"), (busy(workspace.path, 1), "busy")):
        said, log = device.once(f"client.server={Stand(aggregator.port, begin).url}")
        check(said["answer"] == "accepted" and log.count(f"event=failure result={result}") == 1, f"{begin}: {said} {log}")
    aggregator.kill()
    restart = threading.Timer(1.5, aggregator.start)
    restart.start()
    said, log = device.once()
    restart.join()
    check(said["answer"] == "accepted" and "event=failure result=network" in log, f"{said} {log}")


def a_failure_says_when_to_come_back(workspace, aggregator, device):
    """A wait beyond the patience ends the visit."""
    said, log = device.once(f"client.server={Stand(aggregator.port, busy(workspace.path, 130)).url}", code=1)
    check((said["ended_by"], said["result"], said["status"]) == ("failure", "busy", 503), f"{said}")
    check(130_000 <= said["wait_ms"] <= 195_000 and "error" in said["why"] and "no answer" not in log, f"{said} {log}")
    aggregator.kill()
    began = time.monotonic()
    said, log = device.once("client.retry_max=2s", code=1)
    check((said["ended_by"], said["result"], said["status"]) == ("failure", "network", 0), f"{said}")
    check(said["wait_ms"] > 0 and 2 <= log.count("event=failure") <= 4 and time.monotonic() - began < 10, f"{said} {log}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:256-10"},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": 9}}).start()
        device = Device(workspace, aggregator, "device")
        evaluator = Device(workspace, aggregator, "evaluator", "client.evaluator=yes")
        for number in (1, 2):
            said, _ = device.once()
            check((said["ended_by"], said["answer"], said["round"]) == ("uploaded", "accepted", number), f"said {said}")
            rounds = aggregator.json("rounds", "1")
            check((rounds[-1]["round"], rounds[-1]["state"]) == (number + 1, "selected"),
                  f"the device left with a task: {rounds}")
            said, log = evaluator.once()
            check(said["ended_by"] == "waiting" and said["evaluated"], f"said {said}")
            check(log.count("event=task") == 1, f"the evaluator took another task: {log}")
        failures_cost_no_visit(workspace, aggregator, device)
        a_failure_says_when_to_come_back(workspace, aggregator, device)


main(test)
