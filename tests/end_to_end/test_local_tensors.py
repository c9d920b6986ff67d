"""A head that stays on each device: built-in trainers and one of the user's train it, a power cut between two rounds
loses nothing of it, no byte of it is sent, `export` and `predict` of a client use it, and the aggregator's export says
which tensors it knows nothing of."""
import json
import pathlib
import signal
import subprocess
import sys

import safetensors_file
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

HERE = pathlib.Path(__file__).parent
ROUNDS = 3
MODEL, RULES = "mlp:256-24-10", "fc2.*: local"
HEAD, BODY = ("fc2.weight", "fc2.bias"), ("fc1.weight", "fc1.bias")


def federation(workspace, rounds, cohort):
    return Aggregator(workspace, {
        "federation": {"model": MODEL, "seed": 3}, "tensors": {"rules": RULES},
        "round": {"cohort": cohort, "quorum": cohort, "min_clients": cohort, "rounds": rounds, "come_back_max": "1s"},
        "train": {"local_steps": 20, "batch_size": 16}, "codec": {"codec": "float32"},
        "downloads": {"final_model": "all"},
    }).start()


def write_client(workspace, aggregator, name, extra):
    config = workspace.path / f"{name}.ini"
    config.write_text(
        f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\nname = {name}\nstate_dir = {workspace.path / name}\n"
        f"wait = 1s\nretry_min = 100ms\n{extra}\n")
    return config


def client(config, *arguments):
    done = subprocess.run([BIN / "tern-client", *arguments, "--config", config], capture_output=True, text=True,
                          timeout=PATIENCE)
    check(done.returncode == 0, f"tern-client {arguments} exited {done.returncode}: {done.stderr}")
    return done.stdout


def held(workspace, config, name):
    path = workspace.path / f"{name}.safetensors"
    client(config, "export", path)
    tensors, notes = safetensors_file.parse(path.read_bytes())
    return {tensor: found[2] for tensor, found in tensors.items()}, notes


def exported(workspace, aggregator, *arguments):
    path = workspace.path / "global.safetensors"
    said = aggregator.verb("export", path, *arguments)
    tensors, notes = safetensors_file.parse(path.read_bytes())
    return {tensor: found[2] for tensor, found in tensors.items()}, notes, said


def built_in_trainers_have_heads_of_their_own():
    with Workspace() as workspace:
        aggregator = federation(workspace, ROUNDS, 2)
        configs = [write_client(workspace, aggregator, f"device-{i}",
                                f"[data]\nsource = digits:train=300,test=80,size=16\nshard = {i}/2") for i in (1, 2)]
        for config in configs:
            client(config, "enroll", aggregator.join_code())
        running = [workspace.start(BIN / "tern-client", "run", "--config", config, log=config.stem) for config in configs]
        for process in running:
            check(process.wait(PATIENCE) == 0, f"a client exited {process.returncode}")
        (one, notes), (other, _) = [held(workspace, config, config.stem) for config in configs]
        final, about, _ = exported(workspace, aggregator)
        first, _, _ = exported(workspace, aggregator, "--version", "0")
        for tensor in BODY:  # by the last download, which is exact
            check(one[tensor] == other[tensor] == final[tensor] != first[tensor], f"{tensor} differs")
        for tensor in HEAD:
            check(final[tensor] == first[tensor], f"{tensor} of the global model has moved")
            check(len({tuple(model[tensor]) for model in (one, other, first)}) == 3, f"{tensor} is nobody's own")
        check(notes["weights"] == "personal" and notes["local"] == ", ".join(HEAD), f"{notes}")
        check(about["weights"] == "global" and about["local"] == ", ".join(HEAD), f"{about}")
        check(json.loads(client(configs[0], "status", "--json"))["holds"] == "personal", "status says otherwise")
        check("(personal: with local tensors of its own)" in client(configs[0], "status"), "status says otherwise")
        predicted = json.loads(client(configs[0], "predict", "--json"))
        check(predicted["model"] == "personal" and predicted["accuracy"] > 0.2, f"{predicted}"[:300])
        aggregator.kill()
        aggregator.verb("verify")


def a_trainer_of_the_users_is_given_its_own():
    with Workspace() as workspace:
        aggregator = federation(workspace, ROUNDS, 1)
        config = write_client(workspace, aggregator, "device",
                              f"trainer = command\ntrainer_command = {sys.executable} -B {HERE / 'shifting_trainer.py'}")
        client(config, "enroll", aggregator.join_code())
        for _ in range(ROUNDS):  # a process for each round
            client(config, "once")
        found, _ = held(workspace, config, "device")
        first, _, _ = exported(workspace, aggregator, "--version", "0")
        for tensor in HEAD:
            moved = [value - start for value, start in zip(found[tensor], first[tensor])]
            check(all(abs(move - 0.5 * ROUNDS) < 1e-5 for move in moved), f"{tensor} moved by {moved[:4]}")
        aggregator.kill(signal.SIGTERM)


def test():
    built_in_trainers_have_heads_of_their_own()
    a_trainer_of_the_users_is_given_its_own()


main(test)
