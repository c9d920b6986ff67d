"""Every verb but serve and verify: results, --json, errors and exit codes."""
import csv
import fcntl
import hashlib
import io
import json
import os
import re
import stat
import sqlite3
import struct
import subprocess
import time

from cli import BIN, FAILED, MODEL, NOTHING, USAGE, VALUES, State, insert, main

def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)

def init_makes_a_private_directory():
    state = State()
    result = state.run("init", "--model", MODEL, "--seed", 7)
    assert "tern-aggregator serve" in result.text and "tern-client enroll" in result.text
    assert mode(state.path) == 0o700
    assert mode(state.path / "tern.db") == 0o600
    assert mode(state.path / "admin.token") == 0o600
    assert sorted(os.listdir(state.path)) == ["admin.token", "tern.db"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{32}\n", (state.path / "admin.token").read_text())

def init_never_touches_a_federation():
    state = State(rounds=1)
    before = (state.path / "tern.db").read_bytes(), (state.path / "admin.token").read_bytes()
    state.run("init", "--model", "softmax:4-2", code=FAILED, says="already holds a federation")
    assert before == ((state.path / "tern.db").read_bytes(), (state.path / "admin.token").read_bytes())

def init_finishes_what_was_cut_short():
    state = State()
    state.run("init", "--model", MODEL)
    token = (state.path / "admin.token").read_bytes()
    (state.path / "tern.db").unlink()
    state.run("init", "--model", MODEL)
    assert token == (state.path / "admin.token").read_bytes()

def init_reads_settings_and_options_win():
    state = State()
    config = state.root / "aggregator.ini"
    config.write_text(f"[federation]\nstate = {state.path}\nmodel = softmax:8-2\nseed = 3\n"
                      "[client]\nserver = https://ignored\n")
    made = state.run("init", "--config", config, "--seed", 4, "--json", state=False).json
    assert made["model"] == "softmax:8-2" and made["seed"] == 4 and made["values"] == 18
    assert state.run("status", "--config", config, "--json", state=False).json["seed"] == 4

def init_says_what_comes_next_as_it_can_be_typed():
    """The verbs that it prints find the same settings, by whatever init found them."""
    state = State()
    config = state.root / "it's mine.ini"
    config.write_text(f"[federation]\nstate = {state.path}\nmodel = softmax:8-2\n")
    for options in (["--config", config], ["--config", config, "--state", state.root / "b"],
                    ["--state", state.root / "c", "--set", "limits.enrollments_per_minute=3"],
                    ["--set", f"federation.state={state.root}/d e"]):
        made = state.run("init", *options, "--model", "softmax:8-2", state=False).text
        for verb in ("serve --check", "enroll-code"):
            (line,) = re.findall(f"tern-aggregator {verb.split()[0]}.*", made)
            line = line.removesuffix(')"')  # of the code that tern-client is given
            done = subprocess.run(["sh", "-c", f"{line} {' '.join(verb.split()[1:])}"],
                                  env={"PATH": f"{BIN}:/usr/bin:/bin"}, capture_output=True, timeout=60)
            assert done.returncode == 0, (line, done.stderr)
    assert (state.root / "d e" / "tern.db").exists()

def init_names_what_cannot_be_written():
    state = State()
    file = state.root / "file"
    file.write_text("mine")
    for folder in (file, file / "below"):
        state.run("init", "--state", folder, code=FAILED, says=f"cannot make the state directory {folder}: ", state=False)
    assert file.read_text() == "mine"
    table = state.root / "table.csv"
    table.write_text("a,b,state\n" + "1,2,good\n2,3,bad\n" * 20)
    gone = state.root / "gone"  # the current folder takes no files, also for root
    gone.mkdir()
    done = subprocess.run(["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$2" init --data "$3" --label state --state "$4"', "sh", gone,
                           BIN / "tern-aggregator", table, state.path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == FAILED and "cannot write scaling.csv: No such file or directory" in done.stderr, done
    assert not state.path.exists()

def init_refuses_bad_models():
    for model in ("mlp:banana", "mlp:3", "cnn:1", "", "mlp:4-" + "9" * 70):
        state = State()
        state.run("init", "--model", model, code=USAGE, says="model")
        assert not state.path.exists()
    state.run("init", "--model", "mlp:100000-100000-10", code=USAGE, says="too large")
    state.run("init", "--seed", "minus one", code=USAGE, says="--seed")

def verbs_need_a_federation():
    state = State()
    for verb in (["status"], ["clients"], ["rounds"], ["report", "bytes"], ["report", "fairness"],
                 ["ledger"], ["ledger", "1"], ["replicas"], ["replicas", "1"], ["enroll-code"], ["provision"], ["revoke", "1"], ["tag", "1", "a=b"], ["close-round"], ["export", "x.f32"], ["verify"], ["backup", "x"],
                 ["prune", "--keep", "1"]):
        state.run(*verb, code=FAILED, says="tern-aggregator init")
    state.run("status", "--state", "x" * 300, code=USAGE, says="--state", state=False)

def replicas_say_who_holds_what():
    state = State(rounds=2)
    found = state.run("replicas", "--json").json
    assert found["rows"][0]["kept_as"] == "seed" and len(found["rows"]) == 3
    newest = found["rows"][-1]
    assert newest["version"] == 2 and newest["kept_as"] == "float32" and newest["of_version"] is True
    assert newest["residual"] == 1.0 and found["count"] == 3 and found["of_versions"] == 3
    assert found["kept_whole"] == 2 and found["whole_bytes"] == 2 * 4 * VALUES
    clients = state.run("replicas", "--clients", "--json").json
    holders = [row for row in clients if row["known"]]
    assert newest["clients"] == len(holders) > 0
    assert all(row["replica"] == newest["replica"] for row in holders)
    assert state.run("replicas", holders[0]["client"], "--json").json == holders[0]
    text = state.run("replicas").text
    assert newest["replica"][:12] in text and "3 replicas, 3 of them shared by a version" in text
    assert re.search("residual +1\n", state.run("replicas", holders[0]["client"]).text)
    unknown = [row for row in clients if not row["known"]][0]
    assert unknown["replica"] is None and re.search("replica +-\n", state.run("replicas", unknown["client"]).text)
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("UPDATE clients SET replica = ? WHERE id = ?", (b"\x07" * 32, unknown["client"]))
    text = state.run("replicas", unknown["client"]).text
    assert "07" * 32 in text and re.search("known +-\n", text) and re.search("kept as +-\n", text)
    state.run("replicas", 999, code=FAILED, says="there is no client 999")
    state.run("replicas", "seven", code=USAGE, says="is not a client id")

def foreign_databases_are_left_alone():
    state = State(rounds=1)
    other = state.root / "other"
    other.mkdir()
    with sqlite3.connect(other / "tern.db") as database:
        database.execute("CREATE TABLE precious (x)")
    database.close()
    before = (other / "tern.db").read_bytes()
    state.run("status", "--state", other, code=FAILED, says="another program", state=False)
    assert before == (other / "tern.db").read_bytes()

def status_answers_the_two_questions_first():
    state = State(rounds=5)
    lines = state.run("status").text.splitlines()
    assert lines[1].startswith("Accuracy    0.6250, replica of version 5")
    assert "on the wire" in lines[2] and "float32" in lines[2]
    assert "outside of rounds" in lines[3] and "2.40 KB up and 3.00 KB down" in lines[3], lines[3]
    assert "1 evaluator;" in "\n".join(lines)
    status = state.json("status")
    assert status["accuracy"] == 0.625 and status["version"] == 5
    assert status["accuracy_model"] == "replica"
    assert status["clients"] == 4 and status["evaluators"] == 1
    assert status["rounds_committed"] == 5 and status["updates_applied"] == 15
    assert status["float32_payload"] == 4 * VALUES
    mean = status["per_client_and_round"]
    # See make_federation.c: the trainers' enrolments count, the evaluator counts for nothing.
    assert mean["wire_down"] == 650 + 3 * 1000 / 15 and mean["payload_down"] == 300
    assert 200 + 200 + 3 * 800 / 15 < mean["wire_up"] < 1160
    assert status["outside_rounds"]["wire_up"] == 3 * 800 and status["client_rounds"] == 15

def status_names_the_mode():
    state = State(rounds=0)

    def both(*settings):
        arguments = [word for setting in settings for word in ("--set", setting)]
        return state.run("status", *arguments).text, state.json("status", *arguments)

    text, status = both()
    assert "Mode        plain rounds: this aggregator sees each client's update" in text and status["mode"] == "plain", text
    plain = status["codec_accuracies"][0]["round"]
    key = "BDTUUHLQqsNtk8w9FB0EBVfI6_pm-oqcDIpwDrBWcl2e5Fven1U4mDkO8NTHImGv-PztiHYd6MQ3a0gH6a3Fb9w"
    text, status = both("secure.helper=https://helper:8444", f"secure.helper_key={key}", "round.cohort=100",
                        "downloads.plan=trunk", "codec.error_feedback=keep", "round.strategy=fedavg:norm_bound=0")
    assert "Mode        secure rounds: this aggregator sees sums of 50 updates" in text and status["mode"] == "secure", text
    masked = status["codec_accuracies"][0]["round"]
    assert masked > plain, (masked, plain)  # 8 bits a value

def status_names_a_list_that_the_helper_refused():
    state = State(rounds=0)
    key = "BDTUUHLQqsNtk8w9FB0EBVfI6_pm-oqcDIpwDrBWcl2e5Fven1U4mDkO8NTHImGv-PztiHYd6MQ3a0gH6a3Fb9w"
    settings = [word for setting in (
        "secure.helper=https://helper:8444", f"secure.helper_key={key}", "secure.min_clients=2", "downloads.plan=trunk",
        "codec.error_feedback=keep", "round.strategy=fedavg:norm_bound=0", "round.min_clients=2")
        for word in ("--set", setting)]
    for reason, advice in (("near-list", "`tern-helper release`"), ("revoked-client", "event=ticket-refused"),
                           ("too-few-updates", "`tern-aggregator rounds --json` has the reason")):
        with sqlite3.connect(state.path / "tern.db") as database:
            database.execute("DELETE FROM tickets")
            database.execute("DELETE FROM rounds")
            for client in (1, 2):
                insert(database, "tickets", client=client, epoch=1, state=1, sha256=bytes(32))
            insert(database, "rounds", round=1, state=2, mode=1, opened_ms=1, closed_ms=2, reason=f"{reason}: Why.")
        with open(state.path / "lock", "w", encoding="ascii") as lock:  # as if the service ran
            fcntl.flock(lock, fcntl.LOCK_EX)
            text = state.run("status", *settings).text
        assert f"round 1 was abandoned ({reason}), and the next one opens a while later" in text, text
        assert advice in " ".join(text.split()), text

def status_says_why_nothing_happens():
    state = State(rounds=2)  # three that train

    def now(*settings):
        arguments = [word for setting in settings for word in ("--set", setting)]
        shown = state.run("status", *arguments, "--json").json["now"]
        assert shown in state.run("status", *arguments).text
        return shown

    idle = "the service is not running (`tern-aggregator serve`); "
    assert now("round.min_clients=3", "round.eligible_within=0ms") == idle + "the next round opens with the next check-in", now()
    assert now("round.min_clients=4") == (
        idle + "waiting for 1 more client that trains: round.min_clients = 4")
    assert now("round.rounds=2") == "finished: round.rounds = 2 are done"  # which needs no service
    assert "systemctl" not in state.run("status", "--set", "round.rounds=2").text
    assert "none was seen within round.eligible_within = 1.0 s" in now("round.eligible_within=1s")
    with open(state.path / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert now("round.min_clients=3", "round.eligible_within=0ms") == "the next round opens with the next check-in"
    database = sqlite3.connect(state.path / "tern.db")
    insert(database, "rounds", round=3, target=2, quorum=1, opened_ms=1, deadline_ms=2, strategy="fedavg",
           codec_up="float32", codec_down="float32", learning_rate=0.1)
    for client, reported in ((1, 0), (2, 2), (3, 1), (4, 3)):
        insert(database, "assignments", round=3, client=client, state=reported)
    database.execute("UPDATE clients SET last_seen_ms = 1000 * id WHERE id <= 3")
    database.commit()
    database.close()
    assert now() == idle + "round 3 waits for 2 of its members", now()
    shown = state.run("status").text
    assert "client 1 (device-1), last seen " in shown and "client 2 (" not in shown, shown
    assert state.json("status")["silent_longest"] == [1, 3]
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE assignments SET tries = 9 WHERE round = 3 AND client = 3")
    database.close()
    lines = [line for line in state.run("status").text.splitlines() if "fetched its task" in line]
    assert len(lines) == 1 and lines[0].endswith(", fetched its task 9 times or more") and "client 3 (" in lines[0], lines
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE assignments SET state = 2 WHERE round = 3")
    database.close()
    assert "round 3 has the updates of all its members" in now(), now()

def updates_that_were_scaled_down_are_told():
    state = State(rounds=1)
    assert "scaled down" not in state.run("status").text
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE clients SET scaled_down = 3 * id WHERE id <= 2")
        database.execute("UPDATE rounds SET scaled_down = 9")
    assert "9 scaled down, because their norm or number of examples was far above" in state.run("status").text
    assert state.json("status")["updates_scaled_down"] == 9
    heading, first, second, *_ = state.run("clients").text.splitlines()
    at = heading.index("SCALED")
    assert [line[at:at + len("SCALED")].strip() for line in (first, second)] == ["3", "6"]
    assert state.json("clients")[1]["scaled_down"] == 6
    assert state.json("rounds")[0]["scaled_down"] == 9

def clients_that_do_not_report_are_told():
    state = State(rounds=1)
    assert "not report" not in state.run("status").text
    assert state.json("status")["clients_unreliable"] == 0
    clients = state.json("clients")
    trainers = [client["id"] for client in clients if not client["evaluator"] and not client["revoked"]]
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE clients SET unreported = 0.75 WHERE id = ?", trainers[:1])
        database.execute("UPDATE clients SET unreported = 0.25 WHERE id = ?", trainers[1:2])
    status = state.json("status")
    others = len(trainers) - 1
    assert status["clients_unreliable"] == 1 and abs(status["tasks_unreported"] - 0.25 / others) < 1e-6
    advised = status["advised_over_selection"]
    assert advised >= 0.25 / others / (1 - 0.25 / others) > advised - 0.05
    text = state.run("status").text
    assert "1 takes tasks but does not report" in text and f"round.over_selection = {advised:.2g}" in text, text
    assert "over_selection" not in state.run("status", "--set", "round.over_selection=2").text
    shown = state.run("clients").text.splitlines()
    assert ["unreliable" in line for line in shown[1:]].count(True) == 1, shown
    assert [client["unreported"] for client in state.json("clients")][trainers[0] - 1] == 0.75

def clients_are_listed_and_cannot_steer_the_terminal():
    state = State(rounds=1)
    text = state.run("clients").text
    assert "device-1" in text and "evil?[2J?name" in text and "\x1b" not in text
    assert len(text.splitlines()) == 5
    rows = state.json("clients")
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    assert rows[1]["name"] == "evil\x1b[2J\nname"  # JSON escapes it
    assert rows[3]["evaluator"] is True and rows[0]["steps_per_second"] == 40

def rounds_are_listed():
    state = State(rounds=6)
    rows = state.json("rounds")
    assert [row["round"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[1]["applied"] == 3 and rows[1]["state"] == "committed"
    assert rows[1]["accuracy"] == 0.75 and rows[1]["participants"] == 3
    assert rows[1]["wire_down"] == 3 * 650
    assert rows[1]["codec_up"] == "3lc:s=1" and abs(rows[1]["mean_loss"] - 0.5) < 1e-6
    assert [row["round"] for row in state.json("rounds", "--last", 2)] == [5, 6]
    assert len(state.run("rounds", "--last", 2).text.splitlines()) == 3
    state.run("rounds", "--last", "0", code=USAGE, says="--last")

def the_byte_reports_agree():
    state = State(rounds=3)
    totals = []
    for by in ("purpose", "client", "round"):
        report = state.json("report", "bytes", "--by", by)
        rows = list(csv.DictReader(io.StringIO(state.run("report", "bytes", "--by", by, "--csv").text)))
        assert len(rows) == len(report["rows"])
        for name in ("payload_up", "wire_up", "wire_down", "exchanges"):
            assert sum(row[name] for row in report["rows"]) == report["total"][name]
            assert sum(int(row[name]) for row in rows) == report["total"][name]
        assert [str(row[by]) for row in report["rows"]] == [row[by] for row in rows]
        totals.append(report["total"])
    assert totals[0] == totals[1] == totals[2]
    assert totals[0]["exchanges"] == 2 * 9 + 4 + 1
    assert totals[0]["wire_down"] == 9 * 650 + 4 * 1000 + 500
    assert report["client_rounds"] == 9
    assert report["outside_rounds"]["wire_down"] == 3 * 1000
    assert abs(report["per_client_and_round"]["wire_down"] * 9 - (9 * 650 + 3 * 1000)) < 0.01
    assert report["per_client_and_round"] == state.json("status")["per_client_and_round"]
    table = state.run("report", "bytes").text
    assert "upload" in table and "total" in table and "client and round" in table

def reports_that_there_are_not():
    state = State(rounds=2)
    state.run("report", "bytes", "--csv", "--json", code=USAGE, says="exclude")
    state.run("report", "weather", code=USAGE, says="use bytes or fairness")
    state.run("report", "bytes", "--by", "moon", code=USAGE, says="purpose, client or round")
    state.run("report", code=USAGE, says="argument is missing")

def a_client_without_an_update_has_no_round():
    state = State(rounds=5)
    with sqlite3.connect(state.path / "tern.db") as db:
        insert(db, "ledger", client=4, generation=7, sequence=1, norm=0.5, maximum=0.25)
    rows = state.json("ledger")
    assert [row["client"] for row in rows] == [1, 2, 3, 4]
    assert rows[3]["round"] is None and rows[3]["age"] is None and rows[3]["norm"] == 0.5
    assert rows[2]["round"] == 5 and rows[2]["age"] == 0
    assert state.json("ledger", 4) == rows[3]
    assert state.run("ledger").text.splitlines()[4].split()[2:5] == ["-", "-", "-"]
    assert re.search("\nround +-\nage +-\nupdate bytes +-\n", state.run("ledger", 4).text)

def the_ledger_explains_itself():
    state = State(rounds=5)
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("UPDATE ledger SET round = 2, anomaly = 3, anomaly_ms = 1700000000000, directive = 1,"
                   " factor = 0.7, reason = 'decayed 0.7: 3 rounds missed', previous_generation = 9"
                   " WHERE client = 2")
        # That it had a task is all that is known of it.
        insert(db, "ledger", client=4, missed_from=5)
    rows = state.json("ledger")
    assert [row["client"] for row in rows] == [1, 2, 3]
    assert rows[0]["norm"] == 0.25 and rows[2]["maximum"] == 0.125 and rows[0]["generation"] == 0xabcdef01
    assert [row["anomaly"] for row in rows] == ["none", "cloned", "none"]
    assert [row["age"] for row in rows] == [0, 3, 0]
    assert rows[1]["directive"] == "decay" and rows[1]["factor"] == 0.7
    assert rows[1]["reason"] == "decayed 0.7: 3 rounds missed" and rows[1]["anomaly_ms"] == 1700000000000
    assert rows[0]["directive"] == "keep" and rows[0]["sentence"] == "" and rows[0]["sequence"] == 5
    assert len(rows[0]["replica"]) == 64 and rows[0]["update_bytes"] > 0
    lines = state.run("ledger").text.splitlines()
    assert len(lines) == 4
    assert "cloned" in lines[2] and lines[2].endswith("decayed 0.7: 3 rounds missed")
    assert "cloned" not in lines[1] and "abcdef01" in state.run("ledger", 1).text

    assert state.json("ledger", 2) == rows[1]
    text = state.run("ledger", 2).text
    assert "Two devices use this client's identity" in text and "2023-11-14" in text
    assert "3 rounds missed" in text and re.search("\nanomaly +-\n", state.run("ledger", 1).text)
    state.run("ledger", 4, code=NOTHING, says="has not reported an error buffer")
    state.run("ledger", 5, code=FAILED, says="there is no client 5")
    state.run("ledger", "two", code=USAGE, says="is not a client id")

    clients = state.json("clients")
    assert [row["anomaly"] for row in clients] == ["none", "cloned", "none", "none"]
    assert clients[1]["error_norm"] == rows[1]["norm"] and clients[3]["error_round"] is None
    assert "cloned" in state.run("clients").text

def texts_of_a_database_do_not_steer_a_terminal():
    state = State(rounds=2)
    bad = "\x1b[2J\x9b2J a\u202eb\u200bc\U000e0041d\ufeff"
    database = sqlite3.connect(state.path / "tern.db")
    database.execute("UPDATE clients SET name = ?", [bad])
    insert(database, "schedule", client=1, local_steps=1, reason=bad, policy=bad)
    database.execute("UPDATE ledger SET reason = ?", [bad])
    database.commit()
    database.close()
    for verb in (["clients"], ["schedule"], ["schedule", "1"], ["ledger"], ["ledger", "1"], ["replicas", "1"]):
        shown = state.run(*verb).text
        assert "a???b???c????d???" in shown, (verb, shown)
        assert not set(bad) - set(" [2Jabcd") & set(shown), (verb, shown)

def codes_are_shown_once_and_stored_hashed():
    state = State(rounds=0)
    code = state.run("enroll-code").text
    assert re.fullmatch(r"([0-9a-hjkmnp-tv-z]{4}-){3}[0-9a-hjkmnp-tv-z]{4}\n", code), code
    made = state.json("enroll-code", "--uses", 50, "--expires", "7d", "--label", "spring batch")
    assert made["uses"] == 50 and made["label"] == "spring batch" and made["evaluator"] is False
    assert state.json("enroll-code", "--evaluator", "--expires", "1s")["evaluator"] is True
    database = sqlite3.connect(f"file:{state.path}/tern.db?mode=ro", uri=True)
    rows = dict(database.execute("SELECT hash, uses_left FROM codes").fetchall())
    life, = database.execute("SELECT expires_ms - created_ms FROM codes WHERE uses_left = 50").fetchone()
    database.close()
    assert rows[hashlib.sha256(made["code"].encode()).digest()] == 50
    assert rows[hashlib.sha256(code.strip().encode()).digest()] == 1
    assert life == 7 * 86400 * 1000
    assert state.json("status")["code_uses_left"] in (51, 52)  # the one for a second, where it is not over yet
    assert len({state.run("enroll-code").text for _ in range(20)}) == 20
    everything = b"".join(path.read_bytes() for path in state.path.iterdir())
    assert made["code"].encode() not in everything
    state.run("enroll-code", "--uses", 0, code=USAGE, says="--uses")
    state.run("enroll-code", "--expires", "soon", code=USAGE, says="a duration")
    for label in ("x" * 64, "no text: \udcff", "two\nlines"):
        state.run("enroll-code", "--label", label, code=USAGE, says="--label")

def tags_are_given_by_codes_and_by_hand():
    state = State(rounds=1)
    made = state.json("enroll-code", "--tag", "site=oslo, line=3")
    assert made["tags"] == "line=3,site=oslo", made
    assert [code["tags"] for code in state.json("codes")][-1] == "line=3,site=oslo"
    one = state.json("provision", "--tag", "site=bergen")
    assert one["tags"] == "site=bergen"
    assert state.json("clients")[-1]["tags"] == "site=bergen" and state.json("clients")[0]["tags"] == ""
    said = state.run("tag", 1, "site=oslo,line=4").text
    assert said == "Client 1 (device-1) has line=4,site=oslo now.\n", said
    assert state.run("tag", 1).text == "Client 1 (device-1) has line=4,site=oslo.\n"
    assert "as before" in state.run("tag", 1, "line=4,site=oslo").text
    heading, first, second, *_ = state.run("clients").text.splitlines()
    assert heading.endswith("TAGS") and first.endswith("line=4,site=oslo") and second.endswith("-")
    assert state.json("tag", 1, "--clear") == {"client": 1, "tags": "", "before": "line=4,site=oslo"}
    assert state.json("clients")[0]["tags"] == ""
    for wrong, words in ((["site"], "has no value"), (["site=a", "--clear"], "exclude each other"), ([""], "give tags"), (["a=1,a=2"], "occurs twice")):
        state.run("tag", 2, *wrong, code=USAGE, says=words)
    state.run("tag", 77, "a=1", code=FAILED, says="there is no client 77")
    state.run("enroll-code", "--tag", "oslo", code=USAGE, says="tags: \"oslo\" has no value")
    state.run("provision", "--tag", "=oslo", code=USAGE, says="has no key")

def provisioned_clients_are_shown_once():
    state = State()
    state.run("init", "--model", MODEL, "--seed", "7")
    text = state.run("provision", "--name", "valve 17", "--psk", says="tls.psk").text
    shown = dict(line.split(None, 1) for line in text.splitlines())
    assert shown["client"] == "1" and shown["name"] == "valve 17" and shown["psk_identity"] == "1"
    assert shown["model"] == MODEL and shown["seed"] == "7", shown
    assert shown["psk"] == hashlib.sha256(b"tern psk v1" + shown["token"].encode()).hexdigest()
    one = state.json("provision", "--evaluator")
    assert one["client"] == 2 and one["evaluator"] and "psk" not in one, one
    assert one["model_hash"] == shown["model_hash"]
    many = state.json("provision", "--count", 3, "--name", "spring", "--psk")
    assert [row["name"] for row in many] == ["spring-1", "spring-2", "spring-3"], many
    assert len({row["token"] for row in many} | {one["token"], shown["token"]}) == 5
    listed = state.json("clients")
    assert [row["psk"] for row in listed] == [True, False, True, True, True]
    assert [row["evaluator"] for row in listed] == [False, True, False, False, False]
    raw = (state.path / "tern.db").read_bytes() + (state.path / "tern.db-wal").read_bytes() \
        if (state.path / "tern.db-wal").exists() else (state.path / "tern.db").read_bytes()
    assert shown["token"].encode() not in raw and bytes.fromhex(shown["psk"]) in raw

def provisioning_refuses_what_cannot_be():
    state = State(rounds=1)  # four clients
    state.run("provision", "--count", 0, code=USAGE, says="--count")
    state.run("provision", "--count", 10001, code=USAGE, says="--count")
    state.run("provision", "--name", "x" * 64, code=USAGE, says="--name")
    state.run("provision", "--name", "two\nlines", code=USAGE, says="--name")
    state.run("provision", "--count", 3, "--set", "limits.clients=6", code=FAILED,
              says="limits.clients = 6")
    assert len(state.json("clients")) == 4
    state.run("provision", "--count", 2, "--set", "limits.clients=6")
    assert len(state.json("clients")) == 6
    state.run("serve", "--set", "tls.psk=maybe", code=USAGE, says="yes or no")

def revoking_is_for_good():
    state = State(rounds=1)
    assert "Client 1 (device-1) is revoked" in state.run("revoke", 1).text
    assert [row["revoked"] for row in state.json("clients")] == [True, False, False, False]
    assert "already" in state.run("revoke", 1, code=NOTHING).text
    assert state.json("revoke", 2) == {"id": 2, "revoked": True, "was_revoked": False}
    state.run("revoke", 99, code=FAILED, says="no client 99")
    for name in ("device-1", "0", "1x", "", "99999999999999999999"):
        state.run("revoke", name, code=USAGE, says="is not a client id")

def read_safetensors(data):
    length, = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    return json.loads(data[8:8 + length]), data[8 + length:]

def export_writes_what_was_recorded():
    state = State(rounds=4)
    expected = state.json("status")["model_sha256"]
    raw = state.root / "model.f32"
    assert state.json("export", raw) == {"file": str(raw), "weights": "global", "version": 4,
                                         "bytes": 4 * VALUES, "sha256": expected, "model_sha256": expected}
    assert hashlib.sha256(raw.read_bytes()).hexdigest() == expected
    assert state.run("export", "-", "--format", "f32").out == raw.read_bytes()
    named = state.root / "model.safetensors"
    text = state.run("export", named).text
    assert hashlib.sha256(named.read_bytes()).hexdigest() in text
    header, data = read_safetensors(named.read_bytes())
    notes = header.pop("__metadata__")
    assert len(data) == len(raw.read_bytes())  # other order: safetensors has that of the manifest
    assert notes.pop("model_hash") == state.json("status")["model_hash"]
    assert notes == {"weights": "global", "model": MODEL, "version": "4", "round": "4", "strategy": "fedavg",
                     "model_sha256": expected}
    assert header["fc1.weight"]["shape"] == [8, 16] and header["fc1.weight"]["dtype"] == "F32"
    places = sorted(tensor["data_offsets"] for tensor in header.values())
    assert places[0][0] == 0 and places[-1][1] == len(data)
    assert all(left[1] == right[0] for left, right in zip(places, places[1:]))
    replica = state.run("export", "-", "--format", "f32", "--replica").out
    assert len(replica) == len(data) and replica != data

def averages(state, versions, last):
    """By hand, in float32 as struct rounds: the mean of the versions, then a moving average of three."""
    average = []
    for version in range(1, versions + 1):
        data = state.run("export", "-", "--format", "f32", "--version", version).out
        weights = struct.unpack(f"<{VALUES}f", data)
        average = [f32(a + f32(f32(w - a) / min(version, last))) for w, a in zip(weights, average)] \
            if average else list(weights)
        yield version, struct.pack(f"<{VALUES}f", *average)

def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]

def export_has_the_averaged_model():
    state = State(rounds=5)
    for version, expected in averages(state, 5, 3):
        found = state.run("export", "-", "--format", "f32", "--averaged", "--version", version).out
        assert found == expected, version
    named = state.root / "average.safetensors"
    assert state.json("export", named, "--averaged")["averaged"] == 3
    notes = read_safetensors(named.read_bytes())[0]["__metadata__"]
    assert notes["averaged"] == "3" and "model_sha256" not in notes
    assert "averaged model of version 5" in state.run("export", named, "--averaged").text
    state.run("export", named, "--averaged", "--replica", code=USAGE, says="give one")
    state.run("export", named, "--averaged", "--version", 0, code=NOTHING,
              says="average_versions")
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("UPDATE rounds SET averaged = 3 WHERE round = 1")
    database.close()
    state.run("export", "-", "--format", "f32", "--averaged", "--version", 2, code=FAILED,
              says="cannot be replayed")

def export_makes_earlier_versions():
    state = State(rounds=4)
    database = sqlite3.connect(f"file:{state.path}/tern.db?mode=ro", uri=True)
    hashes = dict(database.execute("SELECT version, hex(model_sha256) FROM versions").fetchall())
    database.close()
    for version in range(5):
        data = state.run("export", "-", "--format", "f32", "--version", version).out
        assert hashlib.sha256(data).hexdigest().upper() == hashes[version]
    state.run("export", "-", "--format", "f32", "--version", 5, code=FAILED, says="no version 5")

def evaluate(database, version, replica=None, whole=None, column="accuracy", **values):
    """The only evaluations of a version: of its replica, and of the global model."""
    database.execute("DELETE FROM evaluations WHERE version = ?", [version])
    for model, value in enumerate((replica, whole)):
        if value is not None:
            insert(database, "evaluations", version=version, model=model, client=4, num_examples=200, **{column: value}, **values)
    database.commit()

def export_has_the_best_version():
    state = State(rounds=6)
    state.run("export", "-", "--format", "f32", "--best", "--version", 2, code=USAGE, says="give one of them")
    database = sqlite3.connect(state.path / "tern.db")

    def expect(version, says, written, *more):
        done = state.run("export", "-", "--format", "f32", "--best", *more, says=says)
        assert done.out == state.run("export", "-", "--format", "f32", "--version", version, written).out
        assert not more or more == (written,)
        return " is written" in done.error

    for version, accuracy in enumerate((0.1, 0.75, 0.75, 0.1, 0.1), 1):
        evaluate(database, version, accuracy)
    evaluate(database, 6, 0.1)
    assert not expect(3, "version 3 is best by its replica's accuracy, 0.7500", "--replica")
    assert not expect(3, "version 3 is best by its replica's accuracy, 0.7500", "--replica", "--replica")
    assert expect(3, "version 3 is best by its replica's accuracy, 0.7500; its global model is written", "--global", "--global")
    evaluate(database, 6, 0.1, 0.75)  # of the last one alone, as is usual: the global model of two alike
    assert not expect(6, "version 6 is best by its global model's accuracy, 0.7500", "--global")
    assert expect(3, "version 3 is best by its replica's accuracy, 0.7500", "--global", "--global")  # it says nothing about the others
    evaluate(database, 6, 0.1, 0.7)
    assert not expect(3, "version 3 is best by its replica's accuracy, 0.7500", "--replica")
    for version, accuracy in enumerate((0.2, 0.3, 0.4, 0.5, 0.95, 0.9), 1):
        evaluate(database, version, 0.75 if version in (2, 3) else 0.1, accuracy)
    assert not expect(5, "version 5 is best by its global model's accuracy, 0.9500", "--global")
    assert not expect(5, "version 5 is best by its global model's accuracy, 0.9500", "--global", "--global")
    assert not expect(3, "version 3 is best by its replica's accuracy, 0.7500", "--replica", "--replica")
    database.execute("DELETE FROM evaluations WHERE model = 0 AND version < 6")
    database.commit()
    assert expect(5, "version 5 is best by its global model's accuracy, 0.9500; its replica is written", "--replica", "--replica")
    database.execute("DELETE FROM evaluations WHERE model = 1 AND version = 6")
    database.commit()
    assert not expect(5, "version 5 is best by its global model's accuracy, 0.9500", "--global", "--global")  # which most versions have
    database.execute("DELETE FROM evaluations")
    evaluate(database, 2, 0.4, column="loss", no_accuracy=1)
    evaluate(database, 4, 0.5, 0.3, column="loss", no_accuracy=1)
    assert not expect(4, "version 4 is best by its global model's loss on held-out data, 0.3000", "--global")
    assert not expect(2, "version 2 is best by its replica's loss on held-out data, 0.4000", "--replica", "--replica")
    database.execute("DELETE FROM evaluations")
    database.execute("UPDATE rounds SET mean_loss = 0.01, median_loss = 0.01 WHERE round = 5")
    database.commit()
    assert not expect(4, "version 4 is best by its round's training loss, 0.0100", "--global")  # that it trained from
    assert not expect(4, "version 4 is best by its round's training loss, 0.0100", "--replica", "--replica")
    database.close()
    empty = State(rounds=0)
    empty.run("export", "-", "--format", "f32", "--best", code=FAILED, says="no round is committed. Without --best")
    empty.run("export", "-", "--format", "f32", says="version 0 is the model that init made: no round has changed it")

def export_writes_the_better_model():
    """Without an option that names the weights, and only where evaluators measured both models of that version."""
    state = State(rounds=4)
    database = sqlite3.connect(state.path / "tern.db")
    whole, replica = (state.run("export", "-", "--format", "f32", name).out for name in ("--global", "--replica"))
    assert whole != replica
    why = "version 4: the replica was written, because its accuracy is 0.7700 and the global model's 0.7600. --global writes"

    def expect(weights, says=""):
        done = state.run("export", "-", "--format", "f32", says=says)
        assert done.out == weights and bool(done.error) == bool(says), done.error

    for figures in ((0.9, None), (None, 0.1), (0.7, 0.9), (0.8, 0.8), (0.8, 0.799)):
        evaluate(database, 4, *figures)
        expect(whole)
        assert "its replica" not in state.run("status").text
    evaluate(database, 4, 0.77, 0.76)
    expect(replica, why)
    assert "global model of version 4" in (text := state.run("status").text), text
    assert "            the replica is better (accuracy 0.7700): `export` writes it\n" in text, text
    assert state.json("export", state.root / "model.f32")["weights"] == "replica"
    named = state.root / "model.safetensors"
    assert "replica of version 4" in state.run("export", named).text
    assert read_safetensors(named.read_bytes())[0]["__metadata__"]["weights"] == "replica"
    assert state.run("export", "-", "--format", "f32", "--global").out == whole
    assert state.run("export", "-", "--format", "f32", "--version", 3).out == \
        state.run("export", "-", "--format", "f32", "--version", 3, "--global").out
    evaluate(database, 4, 0.499, 0.5, column="loss", no_accuracy=1)
    expect(whole)
    evaluate(database, 4, 0.45, 0.5, column="loss", no_accuracy=1)
    expect(replica, "because its loss on held-out data is 0.4500 and the global model's 0.5000")
    database.close()
    state.run("export", "-", "--format", "f32", "--global", "--averaged", code=USAGE,
              says="--global and --averaged name different weights: give one of them")

def one_evaluator_decides_no_best_version():
    """Five evaluators, of which one calls versions perfect that the others skipped, or found bad."""
    state = State(rounds=6)
    database = sqlite3.connect(state.path / "tern.db")

    def report(version, *accuracies):
        database.execute("DELETE FROM evaluations WHERE version = ?", [version])
        for client, accuracy in enumerate(accuracies, 11):
            insert(database, "evaluations", version=version, client=client, num_examples=100, accuracy=accuracy)
        database.commit()

    def best(says):
        database.commit()
        state.run("export", "-", "--format", "f32", "--best", says=f"version {says}")

    database.execute("UPDATE clients SET evaluator = 0")
    database.execute("DELETE FROM evaluations")
    for client in range(11, 16):
        insert(database, "clients", id=client, token_hash=bytes([client] * 32), evaluator=1, created_ms=1, last_seen_ms=1 << 50)
    for version in range(1, 5):
        report(version, 1.0, 0.5 + 0.0625 * (version % 4), 0.5, 0.5 + 0.0625 * (version % 4))
    for version in (0, 5, 6):
        report(version, 1.0)
    best("3 is best by its replica's accuracy, 0.6875")
    status = state.json("status")
    assert status["accuracy_version"] == 4 and status["accuracy"] == 0.5, status
    assert status["quality"]["evaluators"] == 4 and status["quality"]["evaluators_expected"] == 5, status
    assert status["quality"]["pending"] == {"version": 6, "model": "replica", "evaluators": 1, "evaluators_expected": 5}, status
    text = state.run("status").text
    assert "replica of version 4 (400 held-out examples of 4 of 5 evaluators" in text, text
    assert "            replica of version 6: 1 of 5 evaluators reported; half must report\n" in text, text
    rounds = {row["version"]: row["accuracy"] for row in state.json("rounds") if "version" in row}
    assert all(rounds[version] is None for version in (5, 6) if version in rounds), rounds
    report(6, 1.0, 0.75, 0.5)  # three of five
    best("6 is best by its replica's accuracy, 0.7500")
    report(6, 1.0, 0.75, 0.5, 0.5)  # of an even number the worse of the middle two
    best("3 is best by its replica's accuracy, 0.6875")
    database.execute("UPDATE clients SET revoked = 1 WHERE id = 11")
    database.commit()
    assert state.json("status")["accuracy"] == 0.5, "a revoked evaluator still counts"
    database.execute("UPDATE clients SET revoked = 1 WHERE id > 11")
    best("5 is best by its round's training loss")
    text = state.run("status").text
    assert "not known: neither half of the evaluators" in text, text
    database.close()

def change(state, *statements):
    with sqlite3.connect(state.path / "tern.db") as database:
        for statement in statements:
            database.execute(statement)
    database.close()

def every_reason_names_what_to_do():
    """Each state that a federation without an open round can be in, worked through from nothing to rounds."""
    state = State(rounds=0)
    lock = open(state.path / "lock", "w", encoding="ascii")
    fcntl.flock(lock, fcntl.LOCK_EX)  # as a service has it

    def expect(now, advice, *settings):
        arguments = [word for setting in ("round.eligible_within=0ms", *settings) for word in ("--set", setting)]
        shown = state.run("status", *arguments, "--json").json
        assert now in shown["now"] and advice in shown["advice"], shown
        assert f"            {shown['advice']}\n" in state.run("status", *arguments).text
        return shown

    few = "round.min_clients=5"
    expect("waiting for 2 more clients", "enroll-code --uses 2` makes a join code", few)
    state.run("enroll-code", "--uses", 7)
    expect("waiting for 2 more clients", "join codes allow 7 more", few)
    change(state, "UPDATE clients SET created_ms = 1000, last_seen_ms = 1000 WHERE id = 1")
    expect("waiting for 3 more clients", "1 enrolled and never checked in: start `tern-client run`", few)
    change(state, "UPDATE clients SET created_ms = 1000, last_seen_ms = 3600000 WHERE NOT evaluator")
    expect("none was seen within round.eligible_within", "whether it runs", "round.eligible_within=1h")
    spent = "UPDATE clients SET budgeted = 1, budget_left = 5000, budget_spent = 4500 WHERE id < 3"
    change(state, spent)
    with sqlite3.connect(state.path / "tern.db") as database:
        for client in (1, 2):
            insert(database, "schedule", client=client, least_bytes=900)
    database.close()
    bytes_last = ("round.quorum=2", "train.schedule=budget")
    expect("waiting for byte budgets: 2 of 3 clients have none left for a round, and 2 must", "[budget]", *bytes_last)
    expect("the next round opens with the next check-in", "`tern-client once`", "round.quorum=2")
    change(state, "UPDATE clients SET budget_spent = 4000")
    expect("the next round opens with the next check-in", "round.come_back_max", *bytes_last)
    scaled = ("statistics.columns=clients", "statistics.wait=1h")
    some = expect("waiting for the statistics of 2 more clients, which scale the columns: statistics.min_clients = 2, and "
                  "3 that checked in sent none", "or lower statistics.min_clients", *scaled)
    assert some["silent_longest"] == [1, 2, 3] and some["waits_for"] == 3, some
    with sqlite3.connect(state.path / "tern.db") as database:
        for client, ago_s in ((1, 600), (3, 60)):
            insert(database, "statistics", client=client, received_ms=1000 * (int(time.time()) - ago_s))
    database.close()
    some = expect("waiting for the statistics of 1 client that has checked in without, for ", "the 2 that have arrived", *scaled)
    assert some["silent_longest"] == [2] and re.search("for at most (49|50) m [0-9]+ s", some["now"]), some
    some = expect("the next round opens with the next check-in", "", scaled[0], "statistics.wait=1m")
    assert some["waits_for"] == 0, some
    tagged = ["round.selection=tags:site=a", "round.min_clients=1"]
    expect("waiting for 1 more client that trains", "3 clients have not the tags of round.selection = tags:site=a", *tagged)
    state.run("tag", 1, "site=a")
    expect("the next round opens with the next check-in", "", *tagged)
    paused = State(rounds=1)
    change(paused, "UPDATE rounds SET opened_ms = 1000 * strftime('%s', 'now')")
    shown = paused.run("status", "--json", "--set", "round.eligible_within=0ms").json
    assert "the next round opens in " in shown["now"] and "round.min_interval = auto" in shown["now"], shown
    assert "systemctl start" in shown["advice"], shown  # it is not running
    shown = paused.run("status", "--json", "--set", "round.rounds=1").json
    assert "finished: round.rounds = 1 are done" in shown["now"], shown
    lock.close()

def a_federation_that_diverged_says_so():
    state = State(rounds=6)
    database = sqlite3.connect(state.path / "tern.db")
    database.execute("UPDATE rounds SET mean_loss = 9, median_loss = 1.5 WHERE round = 1")
    database.execute("UPDATE rounds SET mean_loss = 1, median_loss = 9000 WHERE round > 1")
    database.commit()
    database.close()
    now = state.json("status")
    assert "ended, since it has diverged: the loss of the last round was 9000, of the first 1.5, the " \
        "lowest 1.5, of version 0" in now["now"] and "tern-client check" in now["advice"], now
    assert "lower train.learning_rate" in state.run("status").text
    on = state.json("status", "--set", "round.divergence_rounds=0")
    assert "diverged" not in on["now"] and "learning_rate" not in on["advice"], on
    stalled = state.json("status", "--set", "round.divergence_rounds=0", "--set", "round.patience=5")
    assert "ended, since it has stalled" in stalled["now"], stalled

def export_refuses_without_writing():
    state = State(rounds=1)
    state.run("export", state.root / "model", code=USAGE, says="--format")
    state.run("export", "-", "--format", "onnx", code=USAGE, says="f32, safetensors")
    state.run("export", state.root / "no" / "model.f32", code=FAILED, says="No such file")
    assert sorted(path.name for path in state.root.iterdir()) == ["state"]

def export_replaces_regular_files_only():
    state = State(rounds=1)
    pipe, link, old = (state.root / name for name in ("pipe.f32", "link.f32", "old.f32"))
    os.mkfifo(pipe)
    old.write_bytes(b"old")
    link.symlink_to(old)
    for target in (pipe, link, state.root, "/dev/full"):
        state.run("export", target, "--format", "f32", code=FAILED, says="not a regular file")
    assert stat.S_ISFIFO(os.lstat(pipe).st_mode) and stat.S_ISCHR(os.lstat("/dev/full").st_mode)
    assert link.is_symlink() and old.read_bytes() == b"old"
    state.run("export", old)
    assert old.stat().st_size == 4 * VALUES

def a_backup_is_a_state_of_its_own():
    state = State(rounds=3)
    copy = state.root / "copy" / "tern.db"
    copy.parent.mkdir()
    assert state.json("backup", copy)["bytes"] == copy.stat().st_size
    assert mode(copy) == 0o600
    state.run("backup", copy, code=FAILED, says="there already")
    state.run("revoke", 1)
    restored = state.run("verify", "--json", "--state", copy.parent, state=False).json
    assert restored["ok"] and restored["rounds"] == 3
    rows = state.run("clients", "--json", "--state", copy.parent, state=False).json
    assert rows[0]["revoked"] is False

def prune_drops_old_updates_only():
    state = State(rounds=5)
    state.run("prune", code=USAGE, says="--keep")
    for wrong in ("0", "-1", "all"):
        state.run("prune", "--keep", wrong, code=USAGE, says=f"--keep '{wrong}'")
    whole = "Dropped the bytes of 0 updates. Kept: 15 updates of rounds 1 to 5.\n"
    for keep in (5, 9):
        assert state.run("prune", "--keep", keep, code=NOTHING).text == whole
    best = state.root / "best.f32"
    state.run("export", best, "--version", "best", "--global", says="version 3 is best by its evaluators' accuracy")
    rated = best.read_bytes()
    pruned = state.run("prune", "--keep", 2, "--json")
    assert pruned.json == {"dropped": 9, "pruned_rounds": 3, "download_bytes": 0}
    again = state.run("prune", "--keep", 2, code=NOTHING)
    assert again.text == ("Dropped the bytes of 0 updates. Those of rounds 1 to 3 are gone. Kept: 6 updates of rounds 4 to 5.\n"), again.text
    assert "There is no round yet" in State(rounds=0).run("prune", "--keep", 1, code=NOTHING).text
    state.run("export", best, "--best", says="version 3 is best")
    assert best.read_bytes() == rated, "the best version is another one after the prune"
    status = state.json("status")
    assert status["updates"] == 15 and status["updates_applied"] == 15
    state.run("export", state.root / "newest.f32")
    state.run("export", "-", "--format", "f32", "--version", 5)
    state.run("export", "-", "--format", "f32", "--version", 0)
    state.run("export", "-", "--format", "f32", "--version", 4, code=FAILED,
              says="the updates of rounds 1 to 3 were pruned. Kept: 0, 3 (best) and 5.")
    with sqlite3.connect(state.path / "tern.db") as database:
        evaluate(database, 2, 0.95)
    state.run("export", best, "--version", "best", "--global",
              says="its weights were pruned: version 3 is the best of those that are kept")
    with sqlite3.connect(state.path / "tern.db") as database:
        database.execute("DELETE FROM evaluations")
    state.run("export", best, "--version", "best", "--global", says="version 3 has the label best; no evaluator that is left rates it")
    assert best.read_bytes() == rated, "best is another version than its label says"
    verified = state.json("verify")
    assert verified["ok"] and verified["pruned_rounds"] == 3 and verified["rounds"] == 0
    assert verified["model_sha256"] == status["model_sha256"]
    before = (state.path / "tern.db").stat().st_size
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("CREATE TABLE much AS SELECT zeroblob(100000)")
        db.execute("DROP TABLE much")
    db.close()
    compacted = state.json("compact")
    assert compacted["before_bytes"] >= compacted["after_bytes"] + 100000
    assert compacted["after_bytes"] == (state.path / "tern.db").stat().st_size <= before + 8192
    assert "takes" in state.run("compact", code=NOTHING).text
    text = state.run("verify").text
    assert "Rounds 1 to 3 were pruned" in text and "6 updates" in text
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("DELETE FROM update_bodies WHERE id = (SELECT max(id) FROM updates)")
    state.run("verify", code=FAILED, says="round 5: 1 of its updates are missing")
    unrated = State(rounds=5)
    with sqlite3.connect(unrated.path / "tern.db") as db:
        db.execute("DELETE FROM evaluations")
    unrated.run("export", best, "--version", "best", code=FAILED, says="no version is the best: at least half of the evaluators")
    unrated.run("prune", "--keep", 2, says="the best so far, can no longer be exported: only 0 and 5 can")
    assert unrated.json("label") == [], "a version that no evaluator rates has the label best"

def who_evaluates_later_changes_no_figure_of_the_past():
    state = State(rounds=4)
    before = state.json("rounds")
    with sqlite3.connect(state.path / "tern.db") as db:
        for version in (1, 2, 3, 4):
            insert(db, "evaluations", version=version, client=1, late=version < 4, num_examples=600,
                   loss=9.0, accuracy=0.125)
    after = state.json("rounds")
    assert [row["accuracy"] for row in after][:3] == [row["accuracy"] for row in before][:3]
    expected = (before[3]["accuracy"] + 0.125) / 2  # it was there when this one was made
    assert abs(after[3]["accuracy"] - expected) < 1e-6, after[3]

def the_global_models_figure_goes_before_its_replicas():
    state = State(rounds=4)
    with sqlite3.connect(state.path / "tern.db") as db:
        insert(db, "evaluations", version=4, model=1, client=4, num_examples=100, loss=0.25, accuracy=0.9375)
    status = state.json("status")
    assert status["accuracy"] == 0.9375 and status["accuracy_model"] == "global", status
    assert "Accuracy    0.9375, global model of version 4" in state.run("status").text
    rows = state.json("rounds")
    assert [row["accuracy_model"] for row in rows] == ["replica", "replica", "replica", "global"], rows
    assert state.run("rounds").text.splitlines()[4].split()[5] == "global"

def list_reads_each_file_and_waits_for_none():
    """Also in the folder of the files. Without a writer, nothing ever comes out of a FIFO."""
    state = State()
    state.run("init", "--model", MODEL)
    (state.root / "aggregator.ini").write_text(f"[federation]\nstate = {state.path}\n")
    os.mkfifo(state.root / "aggregator-pipe.ini")
    for name, file in (("locked", "lock"), ("empty", "tern.db")):
        (state.root / name).mkdir()
        os.mkfifo(state.root / name / file)
        (state.root / f"aggregator-{name}.ini").write_text(f"[federation]\nstate = {state.root / name}\n")
    def listed(*more, code):
        done = subprocess.run([BIN / "tern-aggregator", "list", *more], cwd=state.root, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == code, done
        return done
    for folder in (".", state.root):
        rows = {row["name"]: row for row in json.loads(listed(folder, "--json", code=FAILED).stdout)}
        assert sorted(rows) == ["", "empty", "locked", "pipe"], rows
        assert (rows[""]["error"], rows[""]["model"], rows[""]["service"]) == ("", MODEL, "stopped"), rows
        assert "aggregator-pipe.ini is no regular file" in rows["pipe"]["error"], rows
        assert all(rows[name]["error"] and rows[name]["service"] == "stopped" for name in ("empty", "locked")), rows
    for more in (["--config", "aggregator.ini"], ["--set", "round.rounds=1"]):
        assert "give the folder of these files" in listed(".", *more, code=USAGE).stderr

def help_teaches():
    state = State()
    assert "init --data" in state.run("--help", state=False).text
    for verb in ("init", "serve", "status", "clients", "rounds", "report", "ledger", "enroll-code", "codes", "revoke",
                 "provision", "close-round", "export", "verify", "backup", "restore", "copy", "prune",
                 "compact"):
        text = state.run(verb, "--help", state=False).text
        assert "  tern-aggregator " + verb in text, verb  # an example
        assert "--state DIR" in text, verb
    state.run("dance", code=USAGE, says="no verb", state=False)
    state.run("status", "--fast", code=USAGE, says="unknown option")
    assert state.run("--settings", state=False).text.count("[") > 5

main(init_makes_a_private_directory, init_never_touches_a_federation,
     init_finishes_what_was_cut_short, init_reads_settings_and_options_win,
     init_says_what_comes_next_as_it_can_be_typed, init_names_what_cannot_be_written, init_refuses_bad_models,
     verbs_need_a_federation, foreign_databases_are_left_alone,
     status_answers_the_two_questions_first, status_names_the_mode, status_names_a_list_that_the_helper_refused,
     status_says_why_nothing_happens,
     updates_that_were_scaled_down_are_told, clients_that_do_not_report_are_told, clients_are_listed_and_cannot_steer_the_terminal,
     rounds_are_listed, the_byte_reports_agree, reports_that_there_are_not,
     a_client_without_an_update_has_no_round, the_ledger_explains_itself,
     texts_of_a_database_do_not_steer_a_terminal, codes_are_shown_once_and_stored_hashed,
     provisioned_clients_are_shown_once, replicas_say_who_holds_what, tags_are_given_by_codes_and_by_hand,
     provisioning_refuses_what_cannot_be, revoking_is_for_good, export_writes_what_was_recorded,
     export_has_the_averaged_model, export_makes_earlier_versions, export_has_the_best_version, export_writes_the_better_model,
     one_evaluator_decides_no_best_version,
     every_reason_names_what_to_do, a_federation_that_diverged_says_so, export_refuses_without_writing,
     export_replaces_regular_files_only, a_backup_is_a_state_of_its_own,
     prune_drops_old_updates_only, who_evaluates_later_changes_no_figure_of_the_past,
     the_global_models_figure_goes_before_its_replicas, list_reads_each_file_and_waits_for_none, help_teaches,
     # Each verb once.
     sanitized=(init_makes_a_private_directory, status_answers_the_two_questions_first,
                clients_are_listed_and_cannot_steer_the_terminal, rounds_are_listed, the_byte_reports_agree,
                the_ledger_explains_itself, texts_of_a_database_do_not_steer_a_terminal, codes_are_shown_once_and_stored_hashed,
                provisioned_clients_are_shown_once, replicas_say_who_holds_what, tags_are_given_by_codes_and_by_hand,
                export_writes_what_was_recorded, export_has_the_averaged_model, a_backup_is_a_state_of_its_own,
                prune_drops_old_updates_only))
