"""schedule and report fairness: what clients are to train and why, and who was asked how often."""
import csv
import io
import sqlite3

from cli import FAILED, NOTHING, USAGE, State, insert, main

REASON = "deadline: 41.00 steps/s x 30.00 s x 0.50; budget: 1.00 MB left, 9.00 KB a round, takes 8.00 KB"

def decided(rounds=2):
    state = State(rounds=rounds)
    with sqlite3.connect(state.path / "tern.db") as db:
        insert(db, "schedule", client=2, local_steps=615, reason=REASON, updated_ms=1700000000000,
               codec="density:p=0.02,coder=range", policy="deadline+budget", bytes=8000, least_bytes=3000)
        insert(db, "schedule", client=1, local_steps=20, reason="fixed", updated_ms=1700000000000)
        db.execute("UPDATE clients SET budgeted = 1, budget_left = 1000000, metered = 1 WHERE id = 2")
    return state

def the_schedule_is_listed():
    state = decided()
    rows = state.json("schedule")
    assert [row["client"] for row in rows] == [1, 2]
    assert rows[0]["policy"] == "" and rows[0]["codec"] == "" and rows[0]["reason"] == "fixed"
    assert rows[1] == {
        "client": 2, "name": rows[1]["name"], "policy": "deadline+budget", "local_steps": 615,
        "codec": "density:p=0.02,coder=range", "reason": REASON, "updated_ms": 1700000000000,
        "steps_per_second": 40, "budget_left": 1000000,
        "round_bytes": 8000, "least_bytes": 3000, "metered": True}
    lines = state.run("schedule").text.splitlines()
    assert lines[0].split() == ["CLIENT", "NAME", "STEPS", "CODEC", "REASON"]
    assert len(lines) == 3 and lines[1].split() == ["1", rows[0]["name"], "20", "-", "fixed"] and REASON in lines[2]
    assert "\x1b" not in "".join(lines)  # the second one's name tries to steer the terminal

def one_client_is_explained():
    state = decided()
    row = state.json("schedule", 2)
    assert row["client"] == 2 and row["local_steps"] == 615
    text = state.run("schedule", 2).text
    for part in ("deadline+budget", "615", REASON, "2023-11-14 22:13:20Z", "steps per second  40", "1.00 MB",
                 "round bytes       8.00 KB\nleast bytes       3.00 KB", "density:p=0.02,coder=range"):
        assert part in text, (part, text)
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("UPDATE clients SET budget_spent = 250000 WHERE id = 2")
    assert "budget left       750.0 KB" in state.run("schedule", 2).text

def who_is_not_there_is_told():
    state = decided()
    state.run("schedule", 3, code=NOTHING, says="has not had a task yet")
    state.run("schedule", 99, code=FAILED, says="no client 99")
    for bad in ("0", "banana", "-1", "1x", "99999999999999999999"):
        state.run("schedule", bad, code=USAGE)
    state.run("schedule", 1, 2, code=USAGE)
    assert State(rounds=0).json("schedule") == []
    State().run("schedule", code=FAILED)

def shares_of_rounds_are_reported():
    state = State(rounds=3)
    with sqlite3.connect(state.path / "tern.db") as db:
        insert(db, "rounds", round=4, state=1)
        db.execute("UPDATE client_totals SET invited = 4, reported = 4 WHERE client = 2")
        db.execute("UPDATE client_totals SET invited = 4, reported = 2 WHERE client = 3")
    fairness = state.json("report", "fairness")
    assert fairness["rows"] == [{"client": 1, "invited": 3, "reported": 3},
                                {"client": 2, "invited": 4, "reported": 4},
                                {"client": 3, "invited": 4, "reported": 2}]
    assert fairness["rounds"] == 4 and fairness["clients"] == 3
    assert fairness["reported"] == {"min": 2, "median": 3, "max": 4, "jain": fairness["reported"]["jain"]}
    assert abs(fairness["reported"]["jain"] - 81 / 87) < 1e-6
    assert fairness["invited"]["min"] == 3 and fairness["invited"]["median"] == 4
    table = list(csv.DictReader(io.StringIO(state.run("report", "fairness", "--csv").text)))
    assert table[2] == {"client": "3", "invited": "4", "reported": "2"}
    text = state.run("report", "fairness").text
    assert "0.931" in text and "Jain" in text and "3 clients, 4 rounds" in text

def rounds_tell_how_far_updates_were_apart():
    state = State(rounds=2)
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("UPDATE rounds SET variance = 0.25, local_steps = 12.5 WHERE round = 2")
    rows = state.json("rounds")
    assert [(row["variance"], row["local_steps"]) for row in rows] == [(0, 0), (0.25, 12.5)]

def nobody_is_fair():
    fairness = State(rounds=0).json("report", "fairness")
    assert fairness["rounds"] == 0 and fairness["invited"]["jain"] == 1
    state = State()
    state.run("init", "--model", "softmax:4-2")
    assert state.json("report", "fairness")["rows"] == []
    assert "Jain" in state.run("report", "fairness").text

def wrong_policies_are_refused():
    state = State(rounds=1)
    for setting, says in (("train.schedule=fast", "adaptive"), ("train.schedule=adaptive+fixed", "give one of them"),
                          ("train.schedule=", "deadline"), ("round.selection=fair", "budget-aware"),
                          ("train.schedule=adaptive:gamma=1", "gamma"),
                          ("train.schedule=budget:density=0", "density"), ("train.schedule=adaptive:interval=0", "interval"),
                          ("train.schedule=adaptive:start=0.5", "start")):
        state.run("serve", "--set", setting, code=USAGE, says=says)

def help_teaches():
    text = State().run("schedule", "--help", state=False).text
    assert "  tern-aggregator schedule 7" in text and "--state DIR" in text
    assert "fairness" in State().run("report", "--help", state=False).text

main(the_schedule_is_listed, one_client_is_explained, who_is_not_there_is_told,
     shares_of_rounds_are_reported,
     rounds_tell_how_far_updates_were_apart, nobody_is_fair, wrong_policies_are_refused,
     help_teaches)
