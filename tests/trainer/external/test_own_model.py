"""A federation that starts from a model and is trained by a command that are both the user's: names
and shapes that Tern has never heard of go out to the trainer and come back, and what was trained is
what is exported."""
import json
import os
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "end_to_end"))
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run

FAKE = pathlib.Path(__file__).parent / "fake_trainer.py"
ROUNDS = 2
TENSORS = {"net.0.weight": [40, 30], "net.0.bias": [40], 'odd "name"': [2, 3, 4, 1], "scale": []}


def size_of(shape):
    size = 1
    for dim in shape:
        size *= dim
    return size


def write_model(path):
    """Values that float32 adds 1 to exactly."""
    header, data = {}, b""
    for name, shape in TENSORS.items():
        values = [len(data) % 7 + i % 16 / 16 for i in range(size_of(shape))]
        begin = len(data)
        data += struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_model(path):
    bytes_ = path.read_bytes()
    length, = struct.unpack("<Q", bytes_[:8])
    header = json.loads(bytes_[8:8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = (8 + length + place for place in entry["data_offsets"])
        found[name] = (entry["shape"],
                       struct.unpack(f"<{(end - begin) // 4}f", bytes_[begin:end]))
    return found


def figures_are_in_json(start, client):
    """A trainer reports metrics with names of its own and no accuracy; the first four of an evaluation count."""
    result = {"num_examples": 7, "loss": 0.5, "metrics": {"mean error": 2.25, "a= b=c": -3, "mae": 1e-7}}
    command = f"client.trainer_command=/usr/bin/python3 '{FAKE}' result '{json.dumps(result)}'"
    found = json.loads(run(BIN / "tern-client", "train-check", start, "--json", *client, "--set", command))
    check(found["train"]["metrics"] == result["metrics"], f"{found}")
    evaluated = found["evaluate"]
    check(evaluated["num_examples"] == 7 and evaluated["before"] == evaluated["after"], f"{found}")
    told = evaluated["after"]
    check(told["loss"] == 0.5 and told["accuracy"] is None, f"{found}")
    check({name: round(value, 12) for name, value in told["metrics"].items()} == result["metrics"], f"{found}")
    found = json.loads(run(BIN / "tern-client", "train-check", start, "--json", *client))
    check(found["evaluate"]["after"]["accuracy"] == 0.25 and found["train"]["metrics"] == {}, f"{found}")


def test():
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with Workspace() as workspace:
        start = workspace.path / "start.safetensors"
        write_model(start)
        aggregator = Aggregator(workspace, {
            "federation": {"model": start},
            "round": {"strategy": "fedavg", "cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "5m",
                      "rounds": ROUNDS},
            "train": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.05},
            "codec": {"codec": "float32"},
        }).start()
        client = ["--set", f"client.server={aggregator.url}", "--set",
                  f"client.ca={aggregator.ca}", "--set",
                  f"client.state_dir={workspace.path}/client", "--set", "client.trainer=command",
                  "--set", f"client.trainer_command=/usr/bin/python3 '{FAKE}' good"]
        run(BIN / "tern-client", "train-check", start, *client)
        figures_are_in_json(start, client)
        run(BIN / "tern-client", "enroll", *client, aggregator.join_code())
        done = subprocess.run([BIN / "tern-client", "run", *client], capture_output=True,
                              text=True, timeout=PATIENCE)
        check(done.returncode == 0 and "event=failure" not in done.stderr,
              f"exit {done.returncode}: {done.stderr}")
        last = workspace.path / "last.safetensors"
        aggregator.verb("export", str(last))
        before, after = read_model(start), read_model(last)
        check(sorted(after) == sorted(TENSORS), f"the tensors are {sorted(after)}")
        for name, (shape, values) in after.items():
            check(shape == TENSORS[name], f"{name} has the shape {shape}")
            check(values == tuple(value + ROUNDS for value in before[name][1]),
                  f"{name} is {values[:4]}, was {before[name][1][:4]}")


main(test)
