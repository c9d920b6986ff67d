"""Programs that end with what started them, and where they are found."""
import argparse
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

ENDS_WITHIN_S = 10
INTERRUPTED = 5  # exit code, as the programs'


class Failure(Exception):
    """A test's expectation failed; the message has the details."""


def check(condition, message):
    if not condition:
        raise Failure(message)


class Programs:
    """The running programs. At the end of the block they are ended by process id, the newest first."""

    def __init__(self):
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            self.end(process)

    def start(self, *command, log, **options):
        """Starts a program with standard output and error in a file."""
        with open(log, "ab") as sink:
            process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stderr=sink,
                                       **{"stdout": sink, **options})
        self.running.append(process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()


def run(*command, ok=(0,)):
    """Runs a program to its end. Returns its standard output; None: its exit code is not in `ok`."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode in ok else None


def must_run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{' '.join(map(str, command[:2]))} failed: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout


def last_lines(log, count=20):
    """Returns the last lines of its log, without the lines about requests."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([line for line in lines if "event=request " not in line][-count:])


def free_port():
    """One that nobody listens on, outside the range that outgoing connections are given ports from: what is killed
    shall find its own free when it is started again."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    for port in random.SystemRandom().sample(range(10000, max(11000, min(first, 32768))), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Failure("no port is free")


def wait_until(what, condition, seconds, every=0.05):
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, f"{what}, after {seconds} s")
        time.sleep(every)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def neighbour(build, package, program):
    """A program of Debian's, installed or unpacked into the build folder, and where its own libraries are."""
    for root in (pathlib.Path("/"), build / package):
        if os.access(root / program, os.X_OK):
            return root / program, ":".join(map(str, root.glob("usr/lib/*-linux-gnu"))) if root != pathlib.Path("/") else ""
    raise Failure(f"there is no {program}: install {package}")


class Interrupted(Exception):
    """Raised on a first signal; a second one must not stop the cleanup."""


def on_signal(number, _):
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def main_of_demo(description, run):
    """Calls run() with the command line of a demonstration, and returns the exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    arguments = parser.parse_args()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, on_signal)
    # The caller of this program removes its folder, also after a crash.
    tempfile.tempdir = str(arguments.folder.resolve().parent)
    try:
        run(arguments)
    except Interrupted:
        return INTERRUPTED
    except (Failure, AssertionError, OSError) as failure:
        print(f"tern: {failure}", file=sys.stderr)
        return 1
    return 0
