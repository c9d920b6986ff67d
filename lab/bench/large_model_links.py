"""A federation of a large model over bad links, with real clients.

usage: large_model_links.py BUILD_DIR [--values N] [--rank R] [--clients N] [--rounds N] [--codec SPEC]
                      [--cut SECONDS] [--congestion NAME] [--kill SECONDS] [--json FILE]

Most of the model is one frozen matrix (`skip`); two matrices of rank R beside it are trained, as adapters of
low rank are. Each client is in a network namespace of its own, behind a link of 2 Mbit/s up and 10 Mbit/s
down, 300 ms each way, 2 % loss, and cut every minute (bad_link.py). With --kill each client is killed every so
many seconds as well, and started again; a kill between training and the save of its change leaves a change that
the trainer counts and nobody sends, so conservation is not looked at then: unaccounted is null. Needs root, for the
namespaces, and the memory of the model for each client and, three times, for the aggregator.

It prints JSON. needed: bytes of the updates and downloads that counted, each once; sent: of the TCP streams that
carried them, attempts that were cut included (the meter's layer tls); wire: with headers, acknowledgements and
what TCP sent again, of which the 2 % loss alone is .02 and headers .04. memory_beyond: the client's private memory at
its peak, less weights and error buffer. It fails where a figure is out of reach, the rounds were not done, a
value is missing that a client has changed (conservation), or the aggregator cannot replay its history.
"""

import argparse
import array
import json
import os
import pathlib
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time

import bad_link

UP, DOWN, DELAY, LOSS = 2e6, 10e6, 0.3, 0.02
SERVER = "10.77.255.1"
PATTERN = 1 << 20  # values that the frozen matrix repeats
PATIENCE = 5400
MODEL_HEAD, RECORD_HEAD = 8, 28
UPLOAD_HEAD = struct.Struct("<I8s8I")  # FORMAT.md, section 10
REACH = {"sent_over_needed": 1.05, "up_bytes_per_round": 12e6, "memory_beyond": 16 << 20}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"large_model_links: {' '.join(map(str, command))}:\n{done.stderr[-2000:]}")
    return done.stdout


def inside(process, *command):
    return ["nsenter", "-t", str(process.pid), "-n", *(str(part) for part in command)]


def settings(values):
    return [part for pair in values.items() for part in ("--set", f"{pair[0]}={pair[1]}")]


# --- The model


def shapes_of(values, rank):
    """Returns the shapes of a square frozen matrix and two trained ones, with about `values` values."""
    side = int((rank * rank + values) ** 0.5 - rank)
    return {"frozen.weight": [side, side], "adapter.a": [side, rank], "adapter.b": [rank, side]}


def count_of(shape):
    return shape[0] * shape[1]


def write_model(path, shapes):
    header, at = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count_of(shape)]}
        at += 4 * count_of(shape)
    text = json.dumps(header).encode()
    pattern = array.array("f", ((i * 2654435761 % 65521) / 65521 - 0.5 for i in range(PATTERN))).tobytes()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            left = 4 * count_of(shape)
            while left > 0:
                left -= file.write(pattern[:left])


def make_certificate(folder):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
        "-subj", "/CN=t", "-addext", f"subjectAltName=IP:{SERVER}", "-keyout", folder / "server.key", "-out",
        folder / "server.crt")


# --- Clients


class Aggregator:
    def __init__(self, build, folder, arguments):
        self.bin, self.state = build / "bin" / "tern-aggregator", folder / "state"
        self.settings = settings({
            "federation.state": self.state, "federation.model": folder / "model.safetensors",
            "server.address": SERVER, "server.port": 8443, "server.certificate": folder / "server.crt",
            "server.private_key": folder / "server.key", "admin.address": f"unix:{folder}/admin.sock",
            "server.port_file": folder / "port",
            "tensors.rules": "frozen*: skip", "codec.codec": arguments.codec,
            "round.cohort": arguments.clients, "round.quorum": arguments.clients,
            "round.min_clients": arguments.clients, "round.rounds": arguments.rounds, "round.deadline": "2h",
            "train.local_steps": 4, "train.learning_rate": 0.25, "codec.error_feedback": "keep",
            "limits.request": "5m"})
        self.verb("init")
        self.log = open(folder / "aggregator.log", "w")
        self.process = subprocess.Popen([self.bin, "serve", *self.settings], stderr=self.log)
        while not (folder / "port").exists() or not (folder / "port").read_text().strip():
            if self.process.poll() is not None:
                sys.exit("large_model_links: the aggregator did not start")
            time.sleep(0.1)

    def verb(self, *arguments):
        return run(self.bin, *arguments, *self.settings)


class Client:
    """A client in a network namespace of its own. Samples its memory while it runs."""

    def __init__(self, build, folder, number, arguments):
        self.folder = folder / f"client-{number}"
        self.folder.mkdir()
        self.kill_every = arguments.kill
        self.space = subprocess.Popen(["unshare", "-n", "sleep", str(2 * PATIENCE)], stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        self.link = None
        self.peak = {"VmHWM": 0, "RssAnon": 0}
        self.starts = 0
        self.command = inside(self.space, build / "bin" / "tern-client", "run", *settings({
            "client.server": f"https://{SERVER}:8443", "client.ca": folder / "server.crt",
            "client.state_dir": self.folder / "state", "client.trainer": "library", "client.wait": "5m",
            "client.trainer_library": build / "bench-bin" / "liblarge-model-trainer.so",
            "client.trainer_options": self.folder / "changes", "client.retry_max": "5s",
            "client.error_buffer": "float32"}))  # what the buffer rounds would look like a loss
        self.ended = threading.Event()
        self.watch = threading.Thread(target=self.run, daemon=True)

    def make_link(self, number, arguments):
        near, far = f"10.77.{number}.2", f"10.77.{number}.1"
        space = os.open(f"/proc/{self.space.pid}/ns/net", os.O_RDONLY)
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        devices = [bad_link.open_tun("link", space), bad_link.open_tun(f"far{number}", here)]
        for prefix, device, address, peer in ((inside(self.space), "link", near, far), ([], f"far{number}", far, near)):
            run(*prefix, "ip", "addr", "add", address, "peer", peer, "dev", device)
            run(*prefix, "ip", "link", "set", "dev", device, "mtu", "1500", "up")
        run(*inside(self.space), "ip", "route", "add", SERVER, "via", far)
        run(*inside(self.space), "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={arguments.congestion}")
        return bad_link.Link(*devices, (UP, DOWN), DELAY, LOSS, arguments.cut, seed=number).start()

    def enroll(self, code):
        run(*[part if part != "run" else "enroll" for part in self.command], code)

    def sample(self, process):
        try:
            text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            return
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key in self.peak:
                self.peak[key] = max(self.peak[key], int(value.split()[0]) * 1024)

    def run(self):
        while not self.ended.is_set():
            self.starts += 1
            with open(self.folder / "log", "a") as log:
                process = subprocess.Popen(self.command, stderr=log)
            end = time.monotonic() + self.kill_every if self.kill_every else float("inf")
            while process.poll() is None and time.monotonic() < end and not self.ended.wait(0.05):
                self.sample(process)
            if process.poll() is not None:
                break
            process.kill()
            process.wait()

    def bodies(self, event):
        """Bytes of the updates or downloads that the client's log tells of, each once: what is fetched again after a
        kill was needed one time."""
        lines = (self.folder / "log").read_text().splitlines()
        told = [dict(part.partition("=")[::2] for part in line.split()) for line in lines if f"event={event} " in line]
        return sum(size for _, _, size in {(one["round"], one.get("version"), int(one["bytes"])) for one in told})

    def close(self):
        self.ended.set()
        if self.watch.ident is not None:
            self.watch.join()
        if self.link is not None:
            self.link.stop()
        self.space.kill()
        self.space.wait()


UPDATES = "select body from updates join update_bodies using (id) where client = ?"


# --- Conservation: sum of the changes = sum of the updates + error buffer


def floats(data):
    return array.array("f", data)


def take_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def container_of(update):
    """Returns the container, the last field of an Update message."""
    at = 0
    while True:
        tag, at = take_varint(update, at)
        if tag == 15 << 3 | 2:
            size, at = take_varint(update, at)
            return update[at:at + size]
        kind = tag & 7
        if kind == 0:
            _, at = take_varint(update, at)
        elif kind == 2:
            size, at = take_varint(update, at)
            at += size
        else:
            at += 4 if kind == 5 else 8


def decode(container, counts):
    """Decodes an update's bfloat16 or float32 payloads."""
    values, at = array.array("f"), 0
    for count in counts:
        size, at = take_varint(container, at)
        mode, body = container[at], container[at + 1:at + size]
        at += size
        if mode == 0:
            values.extend(floats(bytes(4 * count)))
        elif mode == 1:
            values.extend(floats(body))
        elif mode == 3:
            wide = bytearray(4 * count)
            wide[2::4], wide[3::4] = body[0::2], body[1::2]
            values.extend(floats(bytes(wide)))
        else:
            sys.exit(f"large_model_links: conservation is looked at with bfloat16 or float32 alone, not mode {mode}")
    return values


def error_buffer(client, count):
    record = (client.folder / "state" / "upload").read_bytes()[RECORD_HEAD:]
    _, _, _, _, _, update, _, storage, _, room = UPLOAD_HEAD.unpack_from(record)
    if storage != 0:
        sys.exit("large_model_links: conservation is looked at with error buffers in float32 alone")
    at = UPLOAD_HEAD.size + room + update
    return floats(record[at:at + 4 * count])


def unaccounted(aggregator, clients, counts):
    """Returns the largest change that is neither in an update nor in an error buffer."""
    database = sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True)
    most = 0.0
    for number, client in enumerate(clients, 1):
        rest = array.array("d", (client.folder / "changes").read_bytes())
        parts = [error_buffer(client, len(rest))]
        for (body,) in database.execute(UPDATES, (number,)):
            parts.append(decode(container_of(body), counts))
        for part in parts:
            rest = array.array("d", map(lambda a, b: a - b, rest, part))
        most = max(most, max(rest), -min(rest))
    return most


# --- The figures


def figures(aggregator, clients, arguments, shapes, seconds):
    trained = count_of(shapes["adapter.a"]) + count_of(shapes["adapter.b"])
    values = trained + count_of(shapes["frozen.weight"])
    up_tls, up_wire, down_tls, down_wire = sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True).execute(
        "select sum(up_tls), sum(up_wire), sum(down_tls), sum(down_wire) from meter where client > 0").fetchone()
    needed_up, needed_down = (sum(client.bodies(event) for client in clients) for event in ("uploaded", "downloaded"))
    offered = [sum(client.link.offered[way] for client in clients) for way in (0, 1)]
    weights, buffer = 4 * values, 4 * trained
    private = max(client.peak["RssAnon"] for client in clients)
    return {
        "values": values, "trained_values": trained, "clients": len(clients), "rounds": arguments.rounds,
        "seconds": round(seconds), "cuts": sum(client.link.cuts for client in clients),
        "kills": sum(client.starts - 1 for client in clients),
        "needed_up": needed_up, "needed_down": needed_down,
        "sent_up": up_tls, "sent_down": down_tls, "wire_up": up_wire, "wire_down": down_wire,
        "link_up": offered[0], "link_down": offered[1],
        "sent_over_needed": round((up_tls + down_tls) / (needed_up + needed_down), 4),
        "sent_over_needed_up": round(up_tls / needed_up, 4),
        "sent_over_needed_down": round(down_tls / needed_down, 4),
        "wire_over_needed": round((up_wire + down_wire) / (needed_up + needed_down), 4),
        "up_bytes_per_round": round(up_wire / len(clients) / arguments.rounds),
        "client_peak_resident_bytes": max(client.peak["VmHWM"] for client in clients),
        "client_peak_private_bytes": private,
        "client_weights_and_error_buffer_bytes": weights + buffer,
        "memory_beyond": private - weights - buffer,
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--values", type=int, default=50_000_000)
    parser.add_argument("--rank", type=int, default=72)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codec", default="bfloat16")
    parser.add_argument("--cut", type=float, default=60, help="seconds between cuts, 0: none")
    parser.add_argument("--kill", type=float, default=0, help="seconds between kills of each client, 0: none")
    parser.add_argument("--congestion", default="bbr", help="congestion control of both ends")
    parser.add_argument("--json", type=pathlib.Path)
    return parser.parse_args()


def federate(arguments, folder):
    shapes = shapes_of(arguments.values, arguments.rank)
    write_model(folder / "model.safetensors", shapes)
    make_certificate(folder)
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{SERVER}/32", "dev", "lo")
    run("sysctl", "-qw", f"net.ipv4.tcp_congestion_control={arguments.congestion}")
    aggregator = Aggregator(arguments.build.resolve(), folder, arguments)
    clients = []
    try:
        for number in range(1, arguments.clients + 1):
            clients.append(Client(arguments.build.resolve(), folder, number, arguments))
            clients[-1].link = clients[-1].make_link(number, arguments)
            code = json.loads(aggregator.verb("enroll-code", "--json"))["code"]
            clients[-1].enroll(code)
        began = time.monotonic()
        for client in clients:
            client.watch.start()
        for client in clients:
            client.watch.join(timeout=PATIENCE)
        seconds = time.monotonic() - began
        aggregator.process.terminate()
        aggregator.process.wait()
        result = figures(aggregator, clients, arguments, shapes, seconds)
        done = json.loads(aggregator.verb("status", "--json"))
        result["rounds_done"] = done["version"]
        counts = [count_of(shapes[name]) for name in ("adapter.a", "adapter.b", "frozen.weight")]
        result["unaccounted"] = None if arguments.kill else unaccounted(aggregator, clients, counts)
        aggregator.verb("verify")
        return result
    finally:
        for client in clients:
            client.close()
        if aggregator.process.poll() is None:
            aggregator.process.kill()
            aggregator.process.wait()


def judge(result):
    bad = [key for key, most in REACH.items() if result[key] > most]
    bad += ["rounds_done"] if result["rounds_done"] < result["rounds"] else []
    bad += ["unaccounted"] if result["unaccounted"] is not None and result["unaccounted"] > 1e-5 else []
    return bad


def main():
    arguments = parse()
    if os.geteuid() != 0:
        sys.exit("large_model_links: needs root, for network namespaces")
    if os.environ.get("TERN_OWN_NETWORK") != "yes":
        os.environ["TERN_OWN_NETWORK"] = "yes"
        os.execvp("unshare", ["unshare", "-n", sys.executable, "-B", *sys.argv])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-large-model-"))
    try:
        result = federate(arguments, folder)
    except BaseException:
        for log in sorted(folder.glob("**/*log")):
            print(f"--- {log}\n{log.read_text(errors='replace')[-2000:]}", file=sys.stderr)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text)
    if judge(result):
        sys.exit(f"large_model_links: not reached: {', '.join(judge(result))}")


main()
