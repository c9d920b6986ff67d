"""Transfers over a slow link that end at once: when another thread or a signal cancels them, when conditions change, and when
a budget is used up. Prints how long it takes and how many bytes still arrive."""
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, HELPERS, LONG, PATIENCE, Aggregator, Workspace, check, main, run, wait_until, within

RATE = 400_000  # bytes per second
PIECE = 2000
LINK_BUFFER = 8192
MOST_BYTES = 65536
TRIES = 100 if LONG else 15


class SlowLink:
    """Passes what goes up at RATE from a small buffer, so that the client's kernel has to wait with the rest."""

    def __init__(self, port):
        self.target = port
        self.passed = 0
        self.moved = 0.0  # when the last bytes passed
        self.ends = 0  # connections that have ended
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LINK_BUFFER)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self.down, args=(far, near), daemon=True).start()
            threading.Thread(target=self.up, args=(near, far), daemon=True).start()

    def up(self, near, far):
        due = time.monotonic()
        try:
            while data := near.recv(PIECE):
                self.passed += len(data)
                self.moved = time.monotonic()
                due = max(due, time.monotonic()) + len(data) / RATE
                time.sleep(max(0, due - time.monotonic()))
                far.sendall(data)
        except OSError:
            pass
        self.ends += 1
        far.close()

    def down(self, far, near):
        try:
            while data := far.recv(65536):
                near.sendall(data)
        except OSError:
            pass
        near.close()


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def show(what, values, unit):
    print(f"{what}: {len(values)} tries, median {percentile(values, 0.5)} {unit}, 99th of 100 {percentile(values, 0.99)} {unit}, "
          f"most {max(values)} {unit}")


def end_uploads(workspace, aggregator, kind, tries):
    """Returns the milliseconds and the bytes after each change."""
    link = SlowLink(aggregator.port)
    process = subprocess.Popen([HELPERS / "link_client", kind, f"https://127.0.0.1:{link.port}", aggregator.ca,
                                workspace.path / kind, aggregator.join_code(), str(tries)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    workspace.processes.append(process)
    times, sizes = [], []
    for _ in range(tries):
        check(process.stdout.readline() == "change\n", f"{kind}: link_client has ended")
        before, ends = link.passed, link.ends
        _, ms, why = process.stdout.readline().rstrip("\n").split(" ", 2)
        # An upload that was complete by then leaves its connection open.
        wait_until(f"{kind}: bytes still pass", lambda: link.ends > ends or time.monotonic() > link.moved + 1)
        times.append(int(ms))
        sizes.append(link.passed - before)
        check(why == {"cancel": "", "conditions": "the link became metered",
                      "budget": "the byte budget was used up during the transfer"}[kind], f"{kind} ended by {why!r}")
        process.stdin.write("\n")
        process.stdin.flush()
    check(process.wait(timeout=PATIENCE) == 0, f"{kind}: link_client failed")
    show(f"{kind}, time", times, "ms")
    show(f"{kind}, bytes after it", sizes, "bytes")
    check(percentile(times, 0.99) < 1000 * within(1, beside=10), f"{kind}: {sorted(times)} ms")
    check(max(sizes) <= MOST_BYTES, f"{kind}: {sorted(sizes)} bytes")


def end_by_signals(workspace, aggregator):
    """tern-client run, killed in mid-upload and started again."""
    link = SlowLink(aggregator.port)
    settings = [f"client.server=https://127.0.0.1:{link.port}", f"client.ca={aggregator.ca}", "client.wait=2s",
                f"client.state_dir={workspace.path}/signals", "data.source=digits:train=20,test=10,size=16"]
    options = [part for one in settings for part in ("--set", one)]
    run(BIN / "tern-client", "enroll", aggregator.join_code(), *options)
    times = []
    for i in range(TRIES):
        before = link.passed
        process = workspace.start(BIN / "tern-client", "run", *options, log="signals")
        wait_until("no upload began", lambda: link.passed > before + 4 * LINK_BUFFER)
        time.sleep(0.01 * (i % 10))
        start = time.monotonic()
        process.send_signal(signal.SIGTERM if i % 2 else signal.SIGINT)
        code = process.wait(timeout=PATIENCE)
        times.append(round(1000 * (time.monotonic() - start)))
        check(code == 5, f"a signal ended it with {code}")
    log = (workspace.path / "signals.log").read_text()
    check("event=failure" not in log and log.count("event=interrupted") == TRIES, f"signals: {log}")
    show("signals, time to the end of the process", times, "ms")
    check(percentile(times, 0.99) < 1000 * within(1, beside=10), f"signals: {sorted(times)} ms")


def start_aggregator(workspace, name):
    return Aggregator(workspace, {
        "federation": {"model": "mlp:256-900-10", "seed": 3},  # 240,000 values, 960 KB
        "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m"},
        "train": {"local_steps": 1, "batch_size": 8, "learning_rate": 0.01},
        "codec": {"codec": "float32"},
    }, name=name).start()


def test():
    with Workspace() as workspace:
        for kind in ("cancel", "conditions", "budget"):
            end_uploads(workspace, start_aggregator(workspace, f"to-{kind}"), kind, TRIES if kind != "budget" or LONG else 3)
        end_by_signals(workspace, start_aggregator(workspace, "to-signals"))


main(test)
