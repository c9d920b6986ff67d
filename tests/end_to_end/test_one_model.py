"""Which model a figure is of. When a federation has finished, evaluators and, where the settings say so,
devices download the global model itself: `status`, `tern-aggregator export`, `tern-client export` and
`tern-client predict` are then of the same weights, and every one of them says so. Without that download
they say that a device holds a replica."""

import csv
import io
import json
import random
import subprocess

import safetensors_file
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

FEATURES, CLASSES = 24, ("low", "normal", "high")
VALUES = (FEATURES + 1) * len(CLASSES)


def rows_of(seed, count):
    """A table of unscaled columns, and the scaling that all clients use."""
    draw = random.Random(seed)
    for _ in range(count):
        state = draw.randrange(len(CLASSES))
        yield [f"{2950 + 40 * draw.gauss(state - 1, 1.3):.2f}" for _ in range(FEATURES)], CLASSES[state]


def write_table(path, seed, count, labels=True):
    with open(path, "w", newline="") as out:
        table = csv.writer(out)
        table.writerow([f"rpm{i}" for i in range(FEATURES)] + ["state"] * labels)
        table.writerows(values + [label] * labels for values, label in rows_of(seed, count))


def write_scaling(path):
    path.write_text("column,mean,deviation\n" + "".join(f"rpm{i},2950,52\n" for i in range(FEATURES)))


class Client:
    def __init__(self, workspace, aggregator, name, evaluator=False):
        self.state = workspace.path / name
        table = workspace.path / f"{name}.csv"
        write_table(table, name, 300)
        self.config = workspace.path / f"{name}.ini"
        self.config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\nname = {name}\n"
            f"state_dir = {self.state}\nevaluator = {'yes' if evaluator else 'no'}\nwait = 2s\n"
            f"retry_min = 100ms\n[data]\nsource = csv:{table},label=state,classes={'|'.join(CLASSES)},"
            f"scale={workspace.path}/scaling.csv\n")

    def done(self, *arguments, code=0):
        done = subprocess.run([BIN / "tern-client", *arguments, "--config", self.config],
                              capture_output=True, text=True, timeout=PATIENCE)
        check(done.returncode == code, f"{arguments} exited {done.returncode}: {done.stderr}")
        return done

    def run(self, *arguments, code=0):
        done = self.done(*arguments, code=code)
        return done.stdout if code == 0 else done.stderr

    def log(self, *arguments):
        return self.done(*arguments).stderr

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))


def federation(workspace, final_model):
    return Aggregator(workspace, {
        "federation": {"model": f"softmax:{FEATURES}-{len(CLASSES)}"},
        "round": {"min_interval": "1ms", "min_clients": 1, "cohort": 1, "rounds": 4},
        "train": {"local_steps": 5},
        "downloads": {"final_model": final_model}}).start()


def take_part(workspace, aggregator):
    evaluator = Client(workspace, aggregator, "evaluator", evaluator=True)
    trainer = Client(workspace, aggregator, "trainer")
    for client in (evaluator, trainer):
        client.run("enroll", aggregator.join_code())
    watching = workspace.start(BIN / "tern-client", "run", "--config", evaluator.config, log="evaluator")
    trainer.run("run")
    check(watching.wait(timeout=PATIENCE) == 0, "the evaluator did not end with the federation")
    return evaluator, trainer


def downloaded(client):
    return client.json("meter")["down"]["download"]["payload"]


def compare_with_one_client(client):
    """The federation's figures are those of predict, its own model has learnt, and nothing of the state has changed."""
    before = {path: path.read_bytes() for path in client.state.rglob("*") if path.is_file()}
    found = client.json("compare", "--seconds", "20")
    held_out = client.json("predict")
    check(found["num_examples"] == held_out["num_examples"] and found["version"] == 4 and 0 < found["passes"] <= 150
          and found["seconds"] < 25, f"{found}")
    check(abs(found["federation"]["accuracy"] - held_out["accuracy"]) < 1e-6, f"{found}, and predict {held_out['accuracy']}")
    check(found["alone"]["accuracy"] > 0.7 and found["alone"]["loss"] < 0.8, f"the model of its own did not learn: {found}")
    said = client.run("compare")
    check(f"This client alone: accuracy {found['alone']['accuracy']:.4f}" in said and "global model of version 4" in said, said)
    after = {path: path.read_bytes() for path in client.state.rglob("*") if path.is_file()}
    check(before == after, "compare changed the state directory")
    error = client.run("compare", "--set", f"data.source=csv:{client.state}.csv,label=state,classes={'|'.join(CLASSES)},test=0", code=1)
    check("has no test rows" in error, error)


def status_and_the_model_on_the_device_are_one(workspace):
    aggregator = federation(workspace, "all")
    evaluator, trainer = take_part(workspace, aggregator)
    exported = workspace.path / "global.f32"
    said = aggregator.json("export", "--global", exported)
    check(said["weights"] == "global" and said["version"] == 4, f"export said {said}")
    for client in (evaluator, trainer):
        own = workspace.path / "own.f32"
        said = client.json("export", own)
        check(said["weights"] == "global" and said["version"] == 4, f"tern-client export said {said}")
        check(own.read_bytes() == exported.read_bytes(), "the device exports other weights")
        own = workspace.path / "own.safetensors"
        client.run("export", own)
        notes = safetensors_file.parse(own.read_bytes())[1]
        check(json.loads(notes["columns"]) == [f"rpm{i}" for i in range(FEATURES)] and json.loads(notes["classes"]) == list(CLASSES)
              and notes["scaling_mean"].split() == ["2950"] * FEATURES and notes["scaling_deviation"].split() == ["52"] * FEATURES,
              f"the device's file has the metadata {notes}")
        check(client.json("status")["holds"] == "global", "status of the device")
        check(downloaded(client) >= 4 * VALUES, "the last download was not metered")
    said = evaluator.log("run")  # started again, it evaluates what it holds
    check(" model=global " in said and " model=replica " not in said, said)
    status = aggregator.json("status")
    check(status["accuracy_model"] == "global" and status["accuracy_version"] == 4, f"{status}")
    held_out = evaluator.json("predict")
    check(held_out["model"] == "global", f"predict said {held_out['model']}")
    check(abs(held_out["accuracy"] - status["accuracy"]) < 1e-6,
          f"predict has {held_out['accuracy']}, status {status['accuracy']}")
    compare_with_one_client(trainer)
    rounds = aggregator.json("rounds")
    # The first version's change is so plain that nothing of it is left out of its download.
    check([row["accuracy_model"] for row in rounds][1:] == ["replica", "replica", "global"], f"{rounds}")
    lines = aggregator.verb("status")
    check("global model of version 4 (60 held-out examples" in lines, lines)
    return aggregator, trainer


def columns_go_by_their_names(workspace, trainer, labelled, found):
    """The same answers of a file whose columns stand in another order, beside others, and where some labels are missing."""
    turned = workspace.path / "turned.csv"
    rows = [line.split(",")[::-1] for line in labelled.read_text().splitlines()]
    label = rows[0].index("state")
    for i, row in enumerate(rows):
        row.insert(1, "note" if i == 0 else f"text {i}")
    for row in rows[1:11]:
        row[label + (label > 0)] = ""
    turned.write_text("\n".join(",".join(row) for row in rows) + "\n")
    said = trainer.json("predict", turned)
    check([row["class"] for row in said["rows"]] == [row["class"] for row in found["rows"]], "another order, other answers")
    check(["label" in row for row in said["rows"]] == [i >= 10 for i in range(len(rows) - 1)], "labels where there are")
    right = sum(row["class"] == row["label"] for row in found["rows"][10:])
    check(abs(said["accuracy"] - right / said["num_labelled"]) < 1e-9 and said["num_labelled"] == len(rows) - 11, f"{right}")
    text = trainer.run("predict", turned)
    check("10 of the 50 rows have no label" in text, text)


def predict_reads_what_training_reads(workspace, trainer):
    labelled, bare = workspace.path / "new.csv", workspace.path / "bare.csv"
    write_table(labelled, "new", 50)
    write_table(bare, "new", 50, labels=False)
    found = trainer.json("predict", labelled)
    truth = [label for _, label in rows_of("new", 50)]
    check([row["label"] for row in found["rows"]] == truth, "rows are not in the file's order")
    right = sum(row["class"] == row["label"] for row in found["rows"])
    check(abs(found["accuracy"] - right / 50) < 1e-9 and right > 30, f"{right} of 50 are right")
    check(all(1 / 3 <= row["score"] <= 1 for row in found["rows"]), "a score is no probability")
    blind = trainer.json("predict", bare)
    check([row["class"] for row in blind["rows"]] == [row["class"] for row in found["rows"]],
          "without labels the model says something else")
    check(blind["accuracy"] is None and "label" not in blind["rows"][0], f"{blind}")
    text = trainer.run("predict", labelled)
    check(f"\nglobal model of version 4: accuracy {right / 50:.4f}, {right} of 50 right" in text, text)
    spec = f"csv:{bare},label=state,scale={workspace.path}/scaling.csv"
    check([row["class"] for row in trainer.json("predict", spec)["rows"]] ==
          [str(CLASSES.index(row["class"])) for row in blind["rows"]], "a spec of its own is read alike")
    columns_go_by_their_names(workspace, trainer, labelled, found)
    wrong = workspace.path / "wrong.csv"
    wrong.write_text("rpm0,torque,state\n1,2,low\n")
    said = trainer.run("predict", wrong, code=1)
    check("has no column '" in said and "data.source" in said, said)
    said = trainer.run("predict", f"csv:{labelled},label=state,scale=standard", code=2)
    check("scale=FILE" in said, said)


def without_the_last_download_a_device_holds_a_replica(workspace):
    aggregator = federation(workspace, "none")
    evaluator, trainer = take_part(workspace, aggregator)
    exported, own = workspace.path / "global.f32", workspace.path / "own.f32"
    aggregator.verb("export", "--global", exported)
    said = trainer.json("export", own)
    check(said["weights"] == "replica", f"tern-client export said {said}")
    check(own.read_bytes() != exported.read_bytes(), "a replica is the global model, bit for bit")
    check(aggregator.json("status")["accuracy_model"] == "replica", "status of the aggregator")
    check(trainer.json("status")["holds"] == "replica", "status of the device")
    check(evaluator.json("predict")["model"] == "replica", "predict")
    said = evaluator.log("run")
    check(" model=replica " in said and " model=global " not in said, said)
    check(downloaded(trainer) < 4 * VALUES * 4, "more was downloaded than the deltas")


def test():
    with Workspace() as workspace:
        write_scaling(workspace.path / "scaling.csv")
        _, trainer = status_and_the_model_on_the_device_are_one(workspace)
        predict_reads_what_training_reads(workspace, trainer)
    with Workspace() as workspace:
        write_scaling(workspace.path / "scaling.csv")
        without_the_last_download_a_device_holds_a_replica(workspace)


main(test)
