"""A federation of low-rank adapters beside a frozen trunk, with an example of docs/examples/trainers:
test_lora.py numpy|pytorch. The trunk's values stay to the last bit, adapters alone are sent, and the model learns."""
import os
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "end_to_end"))
import safetensors_file  # noqa: E402
from harness import BIN, HELPERS, Aggregator, Workspace, check, main, run, skip  # noqa: E402

EXAMPLES = pathlib.Path(__file__).parents[3] / "docs" / "examples" / "trainers"
PYTHON = os.environ.get("TERN_TEST_PYTHON", "/usr/bin/python3")
TRAINERS, ROUNDS, RANK = 2, 8, 6
INPUTS, HIDDEN, CLASSES = 256, 64, 10
LEAST = 0.65


def need(kind):
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for module in {"numpy": ["numpy"], "pytorch": ["numpy", "torch"]}[kind]:
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
            skip(f"{PYTHON} has no {module} (Debian package python3-{module})")


def make_model(workspace):
    """A trunk that knows nothing of digits, with adapters."""
    draw = random.Random(5)
    trunk = {}
    for layer, inputs, outputs in (("fc1", INPUTS, HIDDEN), ("fc2", HIDDEN, CLASSES)):
        bound = (6 / inputs) ** 0.5
        trunk[f"{layer}.weight"] = ("F32", [outputs, inputs], [draw.uniform(-bound, bound) for _ in range(inputs * outputs)])
        trunk[f"{layer}.bias"] = ("F32", [outputs], [0.0] * outputs)
    (workspace.path / "trunk.safetensors").write_bytes(safetensors_file.make(trunk))
    run(PYTHON, EXAMPLES / "make_lora.py", workspace.path / "trunk.safetensors", workspace.path / "adapted.safetensors",
        "--rank", RANK)
    return workspace.path / "adapted.safetensors"


def write_client(workspace, aggregator, kind, name, seed, evaluator):
    data = workspace.path / f"data of {name}"
    data.mkdir()
    run(HELPERS / "digits_to_idx", data, seed, 1200, 600)
    config = workspace.path / f"{name}.ini"
    config.write_text(f"""[client]
server = {aggregator.url}
ca = {aggregator.ca}
name = {name}
state_dir = {workspace.path / name}
wait = 5s
evaluator = {"yes" if evaluator else "no"}
trainer = command
trainer_persistent = yes
trainer_command = {PYTHON} '{EXAMPLES}/train_lora_{kind}.py' --data '{data}'
""")
    run(BIN / "tern-client", "enroll", "--config", config, aggregator.join_code())
    return config


def exported(workspace, aggregator, *arguments):
    path = workspace.path / "out.safetensors"
    aggregator.verb("export", path, *arguments)
    return safetensors_file.parse(path.read_bytes())[0]


def test():
    kind = sys.argv[1]
    need(kind)
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": make_model(workspace), "seed": 3},
            "tensors": {"rules": "*.weight: skip, *.bias: skip"},
            "round": {"strategy": "fedavg", "cohort": TRAINERS, "quorum": TRAINERS, "min_clients": TRAINERS, "deadline": "5m", "rounds": ROUNDS},
            "train": {"local_steps": 80, "batch_size": 32, "learning_rate": 0.05, "momentum": 0.5},
        }).start()
        configs = [write_client(workspace, aggregator, kind, f"trainer{i}", 10 + i, False) for i in range(TRAINERS)]
        configs.append(write_client(workspace, aggregator, kind, "evaluator", 99, True))
        running = [workspace.start(BIN / "tern-client", "run", "--config", config, log=config.stem) for config in configs]
        for process in running:
            check(process.wait(timeout=100) == 0, f"a client exited {process.returncode}")
        first, last = exported(workspace, aggregator, "--version", "0"), exported(workspace, aggregator)
        for name, found in last.items():
            check((found == first[name]) == (".lora_" not in name), f"{name} is wrongly {'kept' if found == first[name] else 'moved'}")
        adapters = sum(len(found[2]) for name, found in last.items() if ".lora_" in name)
        sent = aggregator.json("report", "bytes")["total"]["payload_up"] / (TRAINERS * ROUNDS)
        accuracies = re.findall(r"model=(?:replica|global) accuracy=([0-9.]+)", (workspace.path / "evaluator.log").read_text())
        print(f"{kind}: accuracy {accuracies[-1]}; {adapters} of {sum(len(found[2]) for found in last.values())} values are "
              f"adapters', an update has {sent:.0f} bytes of payload")
        check(float(accuracies[-1]) >= LEAST, f"accuracies {accuracies}")
        check(sent < 4 * adapters / 8, f"{sent} bytes an update of {adapters} values")


main(test)
