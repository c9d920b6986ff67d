"""tern-client run on a terminal has a line below its log that says what it does; elsewhere there is none. And
a client that is told to end while its check-in is held does so without a word of trouble."""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

CLEAR = "\r\x1b[K"
INTERRUPTED = 5


def begin(workspace, clients):
    aggregator = Aggregator(workspace, {
        "federation": {"model": "mlp:256-32-10", "seed": 3},
        "round": {"cohort": 1, "quorum": 1, "min_clients": clients, "rounds": 2},
        "train": {"local_steps": 4000, "batch_size": 64},  # far longer than the 100 ms between two lines of progress
    }).start()
    options = []
    for key, value in {"client.server": aggregator.url, "client.ca": aggregator.ca,
                       "client.state_dir": workspace.path / "client", "budget.metered": "no",
                       "data.source": "digits:train=100,test=20,size=16"}.items():
        options += ["--set", f"{key}={value}"]
    subprocess.run([BIN / "tern-client", "enroll", aggregator.join_code(), *options], check=True, capture_output=True)
    return options


def read_all(fd):
    """What was written to the terminal, until the other end is closed."""
    shown = b""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            part = os.read(fd, 65536)
        except OSError:  # how Linux says so
            part = b""
        if not part:
            return shown.decode()
        shown += part
    raise AssertionError("the client did not end")


def a_terminal_has_a_line_of_progress():
    with Workspace() as workspace:
        options = begin(workspace, 1)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        client = subprocess.Popen([BIN / "tern-client", "run", *options], stdin=subprocess.DEVNULL,
                                  stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = read_all(ours)
        os.close(ours)
        check(client.wait(PATIENCE) == 0, shown)
        check(re.search(r"round 1: training, step \d+ of 4000" + re.escape(CLEAR), shown), shown)
        check("round 2: sending the update" in shown, shown)
        check("checking in; rounds done: 0" in shown, shown)
        lines = shown[shown.index(CLEAR):].split("\r\n")
        for line in lines:
            if "event=" in line:  # each event begins where the line of progress was wiped off
                check(re.search(re.escape(CLEAR) + r"time=\S+ level=\S+ event=\S+", line), repr(line))
        check(shown.endswith(CLEAR), f"the terminal is left with {shown[-80:]!r}")
        pieces = [piece for line in lines for piece in line.split(CLEAR)]
        check(all(len(piece) < 60 for piece in pieces if "event=" not in piece), str(pieces))


def no_terminal_has_none():
    with Workspace() as workspace:
        options = begin(workspace, 1)
        done = subprocess.run([BIN / "tern-client", "run", *options], capture_output=True, text=True, timeout=PATIENCE)
        check(done.returncode == 0 and "\x1b" not in done.stderr and "\r" not in done.stderr, done.stderr)
        check(all(line.startswith("time=") for line in done.stderr.splitlines()), done.stderr)


def an_end_during_a_held_check_in_is_no_trouble():
    with Workspace() as workspace:
        options = begin(workspace, 2)
        client = workspace.start(BIN / "tern-client", "run", *options, log="client")
        log = workspace.path / "client.log"
        deadline = time.monotonic() + PATIENCE
        # It is held once the aggregator has it; its own log says nothing of that.
        seen = subprocess.run([BIN / "tern-aggregator", "clients", "--json", "--config", workspace.path / "aggregator.ini"],
                              capture_output=True, check=True).stdout
        while "event=started" not in log.read_text() or seen == subprocess.run(
                [BIN / "tern-aggregator", "clients", "--json", "--config", workspace.path / "aggregator.ini"],
                capture_output=True, check=True).stdout:
            check(time.monotonic() < deadline, log.read_text())
            time.sleep(0.05)
        client.send_signal(signal.SIGTERM)
        check(client.wait(PATIENCE) == INTERRUPTED, log.read_text())
        check("event=failure" not in log.read_text() and "abort" not in log.read_text(), log.read_text())
        check("event=interrupted" in log.read_text(), log.read_text())


def test():
    a_terminal_has_a_line_of_progress()
    no_terminal_has_none()
    an_end_during_a_held_check_in_is_no_trouble()


main(test)
