"""Tables for people and as CSV: their width, headings and colours, and what is not known yet."""
import csv
import fcntl
import io
import json
import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import termios

from cli import BIN, USAGE, State, insert, main


def tables_of(state):
    for verb in (["clients"], ["rounds"], ["codes"], ["replicas"], ["schedule"], ["ledger"],
                 ["report", "bytes"], ["report", "bytes", "--by", "client"]):
        yield verb, [line for line in state.run(*verb).text.split("\n\n")[0].splitlines()
                     if not re.match(r"\d+ replicas, ", line)]


def every_table_fits_80_columns_and_has_a_heading_for_every_column():
    state = State(rounds=6)
    state.run("enroll-code", "--label", "spring batch")
    with sqlite3.connect(state.path / "tern.db") as db:
        insert(db, "schedule", client=2, local_steps=10, policy="fixed",
               reason="schedule.local_steps = 10")
        db.execute("UPDATE ledger SET anomaly = 3, reason = 'decayed 0.7: 12 rounds missed'")
        db.execute("UPDATE clients SET name = 'device-2' WHERE id = 2")
    for verb, lines in tables_of(state):
        assert len(lines) > 1, verb
        assert max(map(len, lines)) <= 80, (verb, lines)
        cells = {len(re.split("  +", line.strip())) for line in lines if not re.search(r" down  ", line)}
        assert len(cells) == 1, (verb, lines)


def on_terminal(state, *arguments, **environment):
    """What a verb writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    done = subprocess.Popen([BIN / "tern-aggregator", *arguments, "--state", state.path], stdout=theirs,
                            env={"TERM": "xterm", **environment})
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65536):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert done.wait(60) == 0
    return shown.decode().replace("\r\n", "\n")


def a_terminal_gets_its_width_and_colours_that_no_color_ends():
    state = State(rounds=2)
    name = "a device whose name goes on " * 2
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("UPDATE clients SET name = ?, revoked = 1 WHERE id = 1", [name])
    coloured = on_terminal(state, "clients")
    plain = on_terminal(state, "clients", NO_COLOR="1")
    assert "\x1b[1mNAME\x1b[0m" in coloured and "\x1b[31mrevoked\x1b[0m" in coloured, coloured
    assert "\x1b" not in plain and re.sub(r"\x1b\[\d*m", "", coloured) == plain
    assert "\x1b" not in on_terminal(state, "clients", TERM="dumb")
    assert max(map(len, plain.splitlines())) == 80 and re.search("a device whos.*…  ", plain), plain
    assert name in state.run("clients").text  # a pipe gets all of it


def a_watched_status_is_drawn_anew_on_a_terminal():
    state = State(rounds=2)
    ours, theirs = pty.openpty()
    watching = subprocess.Popen([BIN / "tern-aggregator", "status", "--watch", "--state", state.path], stdout=theirs)
    os.close(theirs)
    shown = b""
    while shown.count(b"Ctrl-C ends it") < 2:
        shown += os.read(ours, 65536)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(60) == 0
    os.close(ours)
    screens = shown.decode().split("\x1b[H\x1b[J")
    assert screens[0] == "" and all(screen.startswith("Federation  mlp:") for screen in screens[1:3]), screens


def a_watched_status_is_a_line_for_each_change_elsewhere():
    state = State(rounds=2)
    for extra in ([], ["--json"]):
        watching = subprocess.Popen([BIN / "tern-aggregator", "status", "--watch", *extra, "--state", state.path],
                                    stdout=subprocess.PIPE, text=True)
        first = watching.stdout.readline()
        with sqlite3.connect(state.path / "tern.db") as db:
            db.execute("DELETE FROM evaluations")
        second = watching.stdout.readline()
        watching.terminate()
        assert watching.wait(60) == 0 and watching.stdout.read() == ""
        watching.stdout.close()
        if extra:
            assert json.loads(first)["accuracy"] != json.loads(second)["accuracy"]
        else:
            assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  2 committed, no round open; accuracy 0.75", first), first
            assert "accuracy not known; 4 clients" in second, second
        state = State(rounds=2)


def an_open_round_has_no_figures_yet():
    state = State(rounds=2)
    with sqlite3.connect(state.path / "tern.db") as db:
        insert(db, "rounds", round=3, target=2, quorum=1, opened_ms=1, deadline_ms=2, strategy="fedavg",
               codec_up="float32", codec_down="float32", learning_rate=0.1)
    line = state.run("rounds").text.splitlines()[-1]
    assert line.split() == ["3", "open", "0", "-", "-", "-", "-", "-", "-"], line
    assert state.json("rounds")[2]["mean_loss"] is None
    rows = list(csv.DictReader(io.StringIO(state.run("rounds", "--csv").text)))
    assert [row["mean_loss"] for row in rows] == ["1", "0.5", ""], rows
    assert [row["accuracy"] for row in rows][1:] == ["0.75", ""] and rows[2]["wire_up"] == "0" and rows[2]["wire_up_each"] == ""


def csv_has_what_json_has():
    state = State(rounds=3)
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("UPDATE clients SET name = 'a, \"b\"\nc' WHERE id = 1")
    state.run("enroll-code")
    for verb in (["clients"], ["rounds"], ["codes"], ["schedule"], ["ledger"], ["ledger", "1"]):
        found = state.json(*verb)
        found = found if isinstance(found, list) else [found]
        rows = list(csv.DictReader(io.StringIO(state.run(*verb, "--csv").text)))
        assert len(rows) == len(found), verb
        for row, each in zip(rows, found):
            for key, value in each.items():
                text = value if isinstance(value, str) else "" if value is None else json.dumps(
                    value, separators=(",", ":"))
                assert row[key] == text or json.loads(row[key]) == value, (verb, key, row[key], value)
    state.run("clients", "--csv", "--json", code=USAGE, says="exclude each other")


main(every_table_fits_80_columns_and_has_a_heading_for_every_column,
     a_terminal_gets_its_width_and_colours_that_no_color_ends, a_watched_status_is_drawn_anew_on_a_terminal,
     a_watched_status_is_a_line_for_each_change_elsewhere, an_open_round_has_no_figures_yet,
     csv_has_what_json_has)
