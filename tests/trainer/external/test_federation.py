"""A whole federation over TLS whose clients train with an example of docs/examples/trainers, each
on digits of its own: test_federation.py numpy|library|pytorch. The model that an evaluator with the
same trainer reports last is as good as it must be."""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "end_to_end"))
from harness import BIN, HELPERS, Aggregator, Workspace, check, main, run, skip

EXAMPLES = pathlib.Path(__file__).parents[3] / "docs" / "examples" / "trainers"
PYTHON = os.environ.get("TERN_TEST_PYTHON", "/usr/bin/python3")
TRAINERS = 2

# The model, its rounds and their local steps, and the accuracy that the last version must have.
CASES = {
    "numpy": ("mlp:256-32-10", 14, 60, 0.82),
    "pytorch": ("mlp:256-32-10", 8, 100, 0.79),
    "library": ("softmax:256-10", 14, 60, 0.80),
}


def settings_of(kind, data, persistent):
    if kind == "library":
        return {"trainer": "library", "trainer_library": HELPERS / "softmax.so",
                "trainer_options": data}
    return {"trainer": "command", "trainer_persistent": "yes" if persistent else "no",
            "trainer_command": f"{PYTHON} '{EXAMPLES}/train_{kind}.py' --data '{data}'"}


class Client:
    def __init__(self, workspace, aggregator, kind, name, seed, evaluator=False, persistent=False):
        self.workspace, self.name = workspace, name
        data = workspace.path / f"{name}'s data" if kind == "library" else \
            workspace.path / f"data of {name}"
        data.mkdir()
        run(HELPERS / "digits_to_idx", data, seed, 1200, 600)
        settings = {"server": aggregator.url, "ca": aggregator.ca, "name": name,
                    "state_dir": workspace.path / name, "wait": "5s",
                    "evaluator": "yes" if evaluator else "no"} | settings_of(kind, data, persistent)
        self.config = workspace.path / f"{name}.ini"
        self.config.write_text("[client]\n" + "".join(f"{key} = {value}\n"
                                                      for key, value in settings.items()))
        run(BIN / "tern-client", "enroll", "--config", self.config, aggregator.join_code())

    def start(self):
        return self.workspace.start(BIN / "tern-client", "run", "--config", self.config,
                                    log=self.name)

    def log(self):
        return (self.workspace.path / f"{self.name}.log").read_text()


def need(kind):
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    module = {"numpy": "numpy", "pytorch": "torch"}.get(kind)
    if module and subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True,
                                 check=False).returncode != 0:
        skip(f"{PYTHON} has no {module} (Debian package python3-{module})")


def refusal(client, model, *more):
    done = subprocess.run([BIN / "tern-client", "train-check", model, "--config", client.config,
                           *more], capture_output=True, text=True, check=False)
    check(done.returncode in (1, 2), f"exit {done.returncode}")
    return done.stdout + done.stderr


def what_does_not_fit_is_said(client, kind):
    if kind == "numpy":
        said = refusal(client, "mlp:100-8-10")
        check("need a model such as mlp:256-8-10" in said, said)
        said = refusal(client, "softmax:256-9")
        check("need a model such as softmax:256-10" in said, said)
    if kind == "library":
        folder = client.workspace.path / "odd data"
        folder.mkdir()
        options = "--set", f"client.trainer_options={folder}"
        check("is not there" in refusal(client, "softmax:256-10", *options), "no folder")
        images = folder / "train-images-idx3-ubyte"
        (folder / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b")
        check("gunzip" in refusal(client, "softmax:256-10", *options), "packed")
        images.write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 9, 0, 0, 0, 16, 0, 0, 0, 16, 1, 2, 3]))
        check("ends too early" in refusal(client, "softmax:256-10", *options), "truncated")


def train_check_says_ok(client, model):
    said = run(BIN / "tern-client", "train-check", model, "--config", client.config)
    check("train      ok" in said and "weights    ok" in said and "evaluate   ok" in said,
          f"train-check says: {said}")


def test():
    kind = sys.argv[1]
    need(kind)
    model, rounds, steps, least = CASES[kind]
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": model, "seed": 3},
            "round": {"cohort": TRAINERS, "quorum": TRAINERS, "min_clients": TRAINERS,
                      "deadline": "5m", "rounds": rounds},
            "train": {"local_steps": steps, "batch_size": 32, "learning_rate": 0.1,
                      "momentum": 0.5},
        }).start()
        # A process a round is the second trainer's; it shows nothing more with PyTorch, which takes seconds to start.
        clients = [Client(workspace, aggregator, kind, f"trainer{i}", 10 + i, persistent=i == 0 or kind == "pytorch")
                   for i in range(TRAINERS)]
        evaluator = Client(workspace, aggregator, kind, "evaluator", 99, evaluator=True, persistent=True)
        for client in clients[:1] if kind == "pytorch" else clients:
            train_check_says_ok(client, model)
        what_does_not_fit_is_said(clients[0], kind)
        processes = [client.start() for client in (*clients, evaluator)]
        for process in processes:
            check(process.wait(timeout=280) == 0, f"a client exited {process.returncode}")
        for client in (*clients, evaluator):
            check("event=failure" not in client.log(), f"{client.name}: {client.log()}")
            check(not (workspace.path / client.name / "trainer").exists(), "the folder is left")
        found = re.findall(r"version=(\d+) model=replica accuracy=([0-9.]+)", evaluator.log())
        check(found, f"nothing was evaluated: {evaluator.log()}")
        check("round=0" not in evaluator.log(), f"an evaluator has no round: {evaluator.log()}")
        version, accuracy = int(found[-1][0]), float(found[-1][1])
        print(f"{kind}: version {version}, accuracy {accuracy}")
        check(version >= rounds - 1, f"the last version evaluated is {version}")
        check(accuracy >= least, f"accuracy {accuracy} is below {least}")


main(test)
