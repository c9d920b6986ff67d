"""What status reports of the model's quality: figures of evaluators or of the clients that train, whether they still
improve, and whether a guess would be as good."""
import hashlib
import json
import sqlite3

from cli import State, insert, main

ROUNDS = 24

def held_out(figures, spec=None, rounds=ROUNDS, clients=(1, 2), of_evaluator=False):
    """A federation in which each of the clients reported figures(version, client) of the versions that rounds began with."""
    state = State(rounds=rounds)
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("DELETE FROM metrics")
        db.execute("DELETE FROM evaluations")
        if spec is not None:
            db.execute("UPDATE federation SET model_spec = ?", [spec])
        for version in range(rounds):
            for client in clients:
                for name, value in figures(version, client).items():
                    if of_evaluator and name in ("loss", "accuracy"):
                        continue
                    insert(db, "metrics", version=version, name=name, client=client, num_examples=50 * client,
                           value=value, of_evaluator=int(of_evaluator))
                if of_evaluator:
                    found = figures(version, client)
                    insert(db, "evaluations", version=version, client=client, num_examples=50 * client,
                           loss=found["loss"], accuracy=found.get("accuracy", 0), no_accuracy=int("accuracy" not in found))
    return state

def both(state, *settings):
    arguments = [word for setting in settings for word in ("--set", setting)]
    return state.run("status", *arguments).text, state.run("status", *arguments, "--json").json

def clients_that_train_stand_in_for_evaluators():
    state = held_out(lambda version, client: {"loss": 1 / (version + 1), "accuracy": 0.5 + 0.015 * version + 0.03 * client,
                                              "f1_macro": 0.25 * client, "largest": 0.5, "recall_worst": 0.375 * client,
                                              "class_worst": client + 1})
    text, status = both(state)
    want = 0.5 + 0.015 * 23 + 0.03 * (50 * 1 + 100 * 2) / 150
    assert abs(status["accuracy"] - want) < 1e-4 and status["accuracy_version"] == 23, status
    assert status["quality"]["by"] == "clients" and status["quality"]["clients"] == 2, status
    assert "of version 23 (150 held-out examples of 2 clients that train, loss 0.0417)" in text, text
    assert "macro F1 0.4167; worst class: 2 (from 0), with recall 0.3750 at 1 of 2 clients\n" in text, text
    assert "still improving: accuracy by 0.015 a round\n" in text, text
    assert "`tern-client compare` on a device: is a model of its rows alone as good?\n" in text, text
    assert "WARNING: the model" not in text, text
    rounds = [line.split() for line in state.run("rounds").text.splitlines()]
    assert rounds[0][:6] == ["ROUND", "STATE", "UPDATES", "LOSS", "ACCURACY", "OF"], rounds[0]
    assert rounds[23][4:6] == [f"{want:.4f}", "clients"] and rounds[24][4:6] == ["-", "-"], rounds[23:]
    with sqlite3.connect(state.path / "tern.db") as db:
        notes = json.dumps({"classes": json.dumps(["good", "worn", "dry, hot"])}).encode()
        insert(db, "files", name="metadata", body=notes, sha256=hashlib.sha256(notes).digest())
    text, status = both(state)
    assert "worst class: dry, hot, number 2 (from 0), with recall 0.3750" in text and status["quality"]["worst_class_name"] == "dry, hot", text
    text, _ = both(state, f"round.rounds={ROUNDS}")
    assert "still improving: accuracy by 0.015 a round; raise round.rounds to continue" in text, text

def the_class_that_most_clients_report_is_the_worst():
    """Clients 1 to 3 report recalls of 0, .25 and .5 for class 6, client 4 reports 0 for class 2, and client 5 names no class."""
    def figures(version, client):
        return {"loss": 0.5, "accuracy": 0.9, "f1_macro": 0.5, "recall_worst": 0.25 * (client - 1) if client < 4 else 0,
                "class_worst": 6 if client < 4 else 2 if client == 4 else -1e9}

    for by in ("clients", "evaluators"):
        state = held_out(figures, rounds=3, clients=(1, 2, 3, 4, 5), of_evaluator=by == "evaluators")
        text, status = both(state)
        quality = status["quality"]
        assert [quality[f"worst_{name}"] for name in ("class", "recall", "class_clients")] == [6, 0.25, 3], quality
        assert f"worst class: 6 (from 0), with recall 0.2500 at 3 of 4 {by}\n" in text, text
        rows = json.dumps([status.get("metrics"), state.json("rounds"), state.json("report", "fairness")])
        assert "f1_macro" in rows and "class_worst" not in rows and "recall_worst" not in rows, rows
        fairness = state.run("report", "fairness").text
        assert "class_worst" not in fairness and "recall_worst" not in fairness, fairness

def the_finished_version_is_named_as_without_a_figure():
    state = held_out(lambda version, client: {"loss": 1.0, "accuracy": 0.5})
    last = f"version {ROUNDS} itself has no figure: clients evaluate the version with which a round begins"
    assert last in both(state, f"round.rounds={ROUNDS}")[0], both(state, f"round.rounds={ROUNDS}")[0]
    assert "itself has no figure" not in both(state)[0], "a round follows, which evaluates the version"
    state = held_out(lambda version, client: {"loss": 1.0, "accuracy": 0.5}, of_evaluator=True)
    assert "itself has no figure" not in both(state, f"round.rounds={ROUNDS}")[0], "evaluators are expected"

def one_claim_does_not_decide():
    """One of three clients claims 10M rows, all of them classified wrongly."""
    state = held_out(lambda version, client: {"loss": 0.5, "accuracy": 0.9 if client < 3 else 0}, rounds=2, clients=(1, 2, 3))
    with sqlite3.connect(state.path / "tern.db") as db:
        db.execute("UPDATE metrics SET num_examples = CASE client WHEN 3 THEN 10000000 ELSE 100 END")
    _, status = both(state)
    assert abs(status["accuracy"] - 0.9 * 200 / (200 + 16 * 100)) < 1e-6, status

def evaluators_go_before_clients():
    figures = {"loss": 0.5, "accuracy": 0.75, "f1_macro": 0.5, "largest": 0.5, "recall_worst": 0.25, "class_worst": 4}
    state = held_out(lambda version, client: figures, clients=(4,), of_evaluator=True)
    with sqlite3.connect(state.path / "tern.db") as db:
        insert(db, "metrics", version=23, name="loss", client=1, num_examples=9, value=7)
        insert(db, "metrics", version=23, name="accuracy", client=1, num_examples=9, value=0)
    text, status = both(state)
    assert status["accuracy"] == 0.75 and status["quality"]["by"] == "evaluators", status
    assert status["quality"]["worst_class"] == 4 and status["quality"]["worst_recall"] == 0.25, status
    assert "tern-client compare" not in text, text  # clients that train hold out no rows
    assert "no longer improving: the last 10 versions are no better than the previous 10" in text, text

def a_trend_is_more_than_noise():
    for name, change, improving in (("noise", lambda v: 0.7 + 0.05 * (v % 2), False), ("worse", lambda v: 0.9 - 0.01 * v, False),
                                    ("late", lambda v: 0.5 + 0.02 * max(0, v - 10), True)):
        state = held_out(lambda version, client, change=change: {"loss": 1, "accuracy": change(version)})
        assert both(state)[1]["quality"]["improving"] is improving, name
    state = held_out(lambda version, client: {"loss": 2 - 0.05 * version, "r2": 0.05 * version}, spec="linear:8-1,loss=mse")
    text, status = both(state)
    assert status["quality"]["improving"] is True and "still improving: loss by 0.05 a round" in text, text
    state = held_out(lambda version, client: {"loss": 1 / (version + 1), "accuracy": 0.02 * version}, rounds=12)
    assert both(state)[1]["quality"]["improving"] is None, "a trend of 12 versions"

def a_guess_that_is_as_good_is_named():
    def one(figures, spec=None):
        return both(held_out(lambda version, client: figures, spec=spec, rounds=3))[0]

    classes = {"loss": 0.6, "accuracy": 0.75, "f1_macro": 0.2, "largest": 0.75}
    assert "WARNING: the model is no better than naming the largest class every time (accuracy 0.7500)" in one(classes)
    assert "WARNING: the model" not in one(dict(classes, accuracy=0.8125))
    number = {"loss": 1, "r2": 0.001}
    assert "WARNING: the model is no better than predicting the mean of the target\n" in one(number, "linear:8-1,loss=mse")
    assert "WARNING: the model" not in one(dict(number, r2=0.25), "linear:8-1,loss=mse")
    spec = "mlp:8-2-8,loss=reconstruction"
    assert "no better than random guessing" in one({"loss": 0.5, "auc": 0.5}, spec)
    assert "no better than predicting the mean of every scaled column" in one({"loss": 1, "flagged": 0.01}, spec)
    assert "WARNING: the model" not in one({"loss": 0.5, "auc": 0.9}, spec)

def the_best_version_is_measured_before_it_is_guessed():
    """Without evaluators export --best takes figures on held-out rows, not training losses, which fall for longer."""
    state = held_out(lambda version, client: {"loss": 1 + version, "accuracy": 0.9 - 0.1 * abs(version - 3)}, rounds=6)
    state.run("export", "-", "--format", "f32", "--best", says="version 3 is best by its replica's accuracy, 0.9000, measured by the clients that train")
    state = held_out(lambda version, client: {"loss": 0.5 + abs(version - 2), "r2": 0.5}, rounds=6)
    state.run("export", "-", "--format", "f32", "--best", says="version 2 is best by its replica's loss on held-out data, 0.5000, measured by")
    state = held_out(lambda version, client: {}, rounds=6)
    state.run("export", "-", "--format", "f32", "--best", says="by its round's training loss")

def the_model_before_the_first_round_is_named():
    text = both(held_out(lambda version, client: {"loss": 1, "accuracy": 0.25, "largest": 0.5}, rounds=1))[0]
    assert "version 0 is the model before the first round\n" in text and "WARNING: the model" not in text, text

def nobody_reported():
    text, status = both(held_out(lambda version, client: {}, rounds=2))
    assert "Accuracy    not known: neither half of the evaluators nor clients that train (train.evaluate) have reported a version" in text, text
    assert status["accuracy"] is None and status["quality"]["improving"] is None, status

main(clients_that_train_stand_in_for_evaluators, the_class_that_most_clients_report_is_the_worst, one_claim_does_not_decide, the_finished_version_is_named_as_without_a_figure, evaluators_go_before_clients, a_trend_is_more_than_noise,
     a_guess_that_is_as_good_is_named, the_best_version_is_measured_before_it_is_guessed,
     the_model_before_the_first_round_is_named, nobody_reported)
