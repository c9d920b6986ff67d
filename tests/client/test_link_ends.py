"""Transfers over a slow link that end at once: when another thread or a signal cancels them, when conditions change, and when
a budget is used up: uploads of link_client, and both directions of tern-client. Prints how long it takes and how many bytes
still arrive."""
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
REST = 100_000  # bytes of a transfer that move before the conditions change
TRIES = 100 if LONG else 15


class SlowLink:
    """Passes both directions at RATE through small buffers, so that the kernels have to wait with the rest."""

    def __init__(self, port):
        self.target = port
        self.passed = 0  # bytes up
        self.passed_down = 0
        self.moved = 0.0  # when the last bytes passed
        self.ends = 0  # connections that have ended
        self.listener = socket.socket()
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.listener.setsockopt(socket.SOL_SOCKET, option, LINK_BUFFER)
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

    def pieces(self, source):
        due = time.monotonic()
        while data := source.recv(PIECE):
            self.moved = time.monotonic()
            yield data
            due = max(due, time.monotonic()) + len(data) / RATE
            time.sleep(max(0, due - time.monotonic()))

    def up(self, near, far):
        try:
            for data in self.pieces(near):
                self.passed += len(data)
                far.sendall(data)
        except OSError:
            pass
        self.ends += 1
        end(far)

    def down(self, far, near):
        try:
            for data in self.pieces(far):
                near.sendall(data)
                self.passed_down += len(data)
        except OSError:
            pass
        end(near)


def end(connection):
    """Also wakes a thread that reads from it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


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


def end_by_conditions(workspace, aggregator, direction, tries):
    """tern-client run, whose machine loses its power in mid-transfer."""
    link = SlowLink(aggregator.port)
    root = workspace.path / f"root-{direction}"
    supply = root / "sys/class/power_supply/AC"
    supply.mkdir(parents=True)
    (supply / "type").write_text("Mains\n")

    def charge(online):
        (root / "online").write_text(f"{online}\n")
        (root / "online").rename(supply / "online")

    def count():
        return link.passed if direction == "up" else link.passed_down

    def paused():
        return log.read_text().count("event=paused")

    charge(1)
    settings = [f"client.server=https://127.0.0.1:{link.port}", f"client.ca={aggregator.ca}", "client.wait=2s",
                f"client.state_dir={workspace.path}/power-{direction}", f"client.root={root}", "client.when=charging",
                "client.look_again=1s", "data.source=digits:train=20,test=10,size=16"]
    options = [part for one in settings for part in ("--set", one)]
    run(BIN / "tern-client", "enroll", aggregator.join_code(), *options)
    name = f"power-{direction}"
    workspace.start(BIN / "tern-client", "run", *options, log=name)
    log = workspace.path / f"{name}.log"
    sizes = []
    for _ in range(tries):
        start, pauses = count(), paused()
        wait_until(f"{name}: nothing moved", lambda: count() > start + REST)
        charge(0)
        before = count()
        wait_until(f"{name}: no pause", lambda: paused() > pauses)
        sizes.append(count() - before)
        charge(1)
    show(f"{name}, bytes after it", sizes, "bytes")
    check(" why=\"charging is " in log.read_text() and "event=failure" not in log.read_text(), log.read_text()[-2000:])
    check(max(sizes) <= MOST_BYTES, f"{name}: {sizes} bytes")


def start_aggregator(workspace, name):
    return Aggregator(workspace, {
        "federation": {"model": "mlp:256-900-10", "seed": 3},  # 240,000 values, 960 KB
        "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m"},
        "train": {"local_steps": 1, "batch_size": 8, "learning_rate": 0.01},
        "codec": {"codec": "float32", "codec_down": "float32"},
    }, name=name).start()


def test():
    with Workspace() as workspace:
        for kind in ("cancel", "conditions", "budget"):
            end_uploads(workspace, start_aggregator(workspace, f"to-{kind}"), kind, TRIES if kind != "budget" or LONG else 3)
        for direction in ("up", "down"):
            end_by_conditions(workspace, start_aggregator(workspace, f"to-power-{direction}"), direction, TRIES // 5)
        end_by_signals(workspace, start_aggregator(workspace, "to-signals"))


main(test)
