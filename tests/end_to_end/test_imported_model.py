"""A federation of a model that is not built in: imported from a safetensors file with a rule for
each kind of tensor, fetched and trained by clients with a trainer of their own, exported again.
One client is provisioned and comes late, one loses its copy of the model's description."""

import json
import pathlib
import subprocess
import sys

import safetensors_file
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, run

ROUNDS = 5
HERE = pathlib.Path(__file__).parent
RULES = "head.scale: dense, embed*: skip; *.bias: fuse"
TENSORS = {
    "embed.weight": ("F32", [30, 20], [(i % 17 - 8) / 16 for i in range(600)]),
    "body.weight": ("BF16", [20, 40], [(i % 9 - 4) / 4 for i in range(800)]),
    "body.bias": ("F16", [20], [i / 8 for i in range(20)]),
    "bn.running_mean": ("F32", [20], [i / 32 - 0.25 for i in range(20)]),
    "bn.num_batches_tracked": ("I64", [], [7]),
    "head.scale": ("F32", [], [-1.5]),
}
COUNTER = "bn.num_batches_tracked"  # no float: kept for export, and never sent
NOTES = {"format": "pt", "author": "test", "version": "of somebody else"}


def write_client(workspace, aggregator, name, trainer="command", evaluator=False):
    config = workspace.path / f"{name}.ini"
    command = f"{sys.executable} -B {HERE / 'shifting_trainer.py'}"
    config.write_text(
        f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\nname = {name}\n"
        f"state_dir = {workspace.path / name}\ntrainer = {trainer}\ntrainer_command = {command}\n"
        f"evaluator = {'yes' if evaluator else 'no'}\nwait = 2s\nretry_min = 100ms\n")
    return config


def client(config, *arguments, ok=(0,), timeout=PATIENCE):
    done = subprocess.run([BIN / "tern-client", *arguments, "--config", config],
                          capture_output=True, text=True, timeout=timeout)
    check(done.returncode in ok, f"tern-client {arguments} exited {done.returncode}: {done.stderr}")
    return done


def enroll(config, aggregator):
    client(config, "enroll", aggregator.join_code())


def export(workspace, aggregator, *arguments, name="out.safetensors"):
    path = workspace.path / name
    aggregator.verb("export", "--global", path, *arguments)
    return safetensors_file.parse(path.read_bytes())


def values(tensors):
    return {name: found[2] for name, found in tensors.items()}


def check_first_version(tensors, notes):
    trained = [name for name, found in TENSORS.items() if found[0] != "I64"]
    check(list(tensors) == trained + [COUNTER], f"tensors came out as {list(tensors)}")
    check(tensors[COUNTER] == TENSORS[COUNTER], f"{COUNTER} is now {tensors[COUNTER]}")
    for name in trained:
        _, shape, first = TENSORS[name]
        check(tensors[name] == ("F32", shape, first), f"{name} did not come out as it went in")
    check(notes["author"] == "test" and notes["format"] == "pt", f"metadata was lost: {notes}")
    check(notes["version"] == "0" and notes["round"] == "0", f"version 0 says {notes}")


def check_last_version(tensors, notes, shift):
    """Dense, frozen and kept tensors are known to the last bit, compressed ones nearly."""
    check(tensors[COUNTER] == TENSORS[COUNTER], f"{COUNTER} is now {tensors[COUNTER]}")
    found = values(tensors)
    first = {name: entry[2] for name, entry in TENSORS.items()}
    check(found["embed.weight"] == first["embed.weight"], "a frozen tensor moved")
    for name in ("bn.running_mean", "head.scale"):
        expected = [value + shift for value in first[name]]
        check(found[name] == expected, f"{name} is {found[name]}, not {expected}")
    for name in ("body.weight", "body.bias"):
        off = max(abs(value - start - shift) for value, start in zip(found[name], first[name]))
        check(off < 0.3 * shift, f"{name} is off by {off} after a shift of {shift}")
    check(notes["version"] == str(ROUNDS) and notes["round"] == str(ROUNDS), f"{notes}")
    check(notes["strategy"] == "fedavgm" and len(notes["model_hash"]) == 64, f"{notes}")


def check_exports(workspace, aggregator):
    newest, notes = export(workspace, aggregator)
    check_last_version(newest, notes, 0.5 * ROUNDS)
    check(export(workspace, aggregator, "--version", ROUNDS) == (newest, notes),
          "the newest version by its number is another")
    check_first_version(*export(workspace, aggregator, "--version", 0))
    third, notes = export(workspace, aggregator, "--version", 3)
    check(notes["version"] == "3" and values(third)["head.scale"] == [0.0], f"version 3: {notes}")
    for dtype, bits in (("F16", 2**-10), ("BF16", 2**-7)):
        small, _ = export(workspace, aggregator, "--dtype", dtype)
        check(small.pop(COUNTER) == TENSORS[COUNTER], f"{COUNTER} does not stay I64")
        for name, (found, shape, numbers) in small.items():
            check((found, shape) == (dtype, newest[name][1]), f"{name} came out as {found} {shape}")
            check(all(abs(a - b) <= bits * abs(b) for a, b in zip(numbers, newest[name][2])),
                  f"{name} is not {dtype} rounded")
    export(workspace, aggregator, name="again.safetensors")
    again = json.loads(run(BIN / "tern-aggregator", "init", "--json", "--state",
                           workspace.path / "again", "--model",
                           workspace.path / "again.safetensors", "--rules", RULES))
    check(again["model_hash"] == notes["model_hash"], "an exported model is another when it returns")


def refuse_without_budget(workspace, aggregator):
    """A factory's device whose budget has no room for the model's description asks for nothing."""
    config = write_client(workspace, aggregator, "poor")
    config.write_text(config.read_text() + "[budget]\nper_month = 2000\n")
    made = workspace.path / "poor.json"
    made.write_text(aggregator.verb("provision", "--json"))
    client(config, "enroll", "--provisioned", made)
    said = client(config, "once", ok=(4,)).stderr
    check("byte budget has no room" in said and "event=budget" in said, f"it says: {said}")
    check(not (workspace.path / "poor" / "meter").exists(), "bytes were spent")
    config.write_text(config.read_text().replace("2000", "1000000"))
    aggregator.verb("revoke", aggregator.json("clients")[-1]["id"])
    client(config, "once", ok=(1, 3))
    meter = json.loads(client(config, "meter", "--json").stdout)
    check(meter["up"]["download"]["wire"] > 100, f"what a fetch cost is not in the meter: {meter}")


def refuse_built_in_trainer(workspace, aggregator):
    config = write_client(workspace, aggregator, "idle", trainer="builtin")
    enroll(config, aggregator)
    said = client(config, "once", ok=(2,)).stderr
    check("client.trainer" in said, f"without a trainer it says: {said}")
    aggregator.verb("revoke", aggregator.json("clients")[-1]["id"])


def start(workspace, config, name):
    return workspace.start(BIN / "tern-client", "run", "--config", config, log=name)


def wait_for(processes):
    for process in list(processes):
        check(process.wait(timeout=PATIENCE) == 0, f"{process.args} ended with {process.returncode}")


def imported_model():
    with Workspace() as workspace:
        source = workspace.path / "model.safetensors"
        source.write_bytes(safetensors_file.make(TENSORS, NOTES))
        aggregator = Aggregator(workspace, {
            "federation": {"model": source},
            "tensors": {"rules": RULES},
            "round": {"strategy": "fedavgm:server_learning_rate=0.5,server_momentum=0.5", "cohort": 2, "min_clients": 2, "rounds": ROUNDS, "deadline": "60s",
                      "come_back_min": "50ms", "come_back_max": "500ms"},
            # Dense tensors are averaged all the same.
            "codec": {"codec": "3lc:s=1", "codec_down": "3lc:s=1"},
        })
        check_first_version(*export(workspace, aggregator))
        aggregator.start()
        refuse_built_in_trainer(workspace, aggregator)
        refuse_without_budget(workspace, aggregator)
        configs = {name: write_client(workspace, aggregator, name, evaluator=name == "judge")
                   for name in ("left", "right", "late", "judge")}
        for name in ("left", "right", "judge"):
            enroll(configs[name], aggregator)
        made = workspace.path / "late.json"
        made.write_text(aggregator.verb("provision", "--evaluator", "--json"))
        client(configs["late"], "enroll", "--provisioned", made)
        check(not (workspace.path / "late" / "model").exists(), "provisioning asked the network")

        record = workspace.path / "right" / "model"
        damaged = bytearray(record.read_bytes())
        damaged[-1] ^= 1
        record.write_bytes(damaged)
        wait_for(start(workspace, configs[name], name) for name in ("left", "right", "judge"))
        wait_for([start(workspace, configs["late"], "late")])
        check((workspace.path / "late" / "model").exists(), "the provisioned client keeps no model")
        check(record.read_bytes() != bytes(damaged), "the damaged description was kept")
        rounds = aggregator.json("rounds")
        check(len(rounds) == ROUNDS, f"{len(rounds)} rounds were done")
        check(all("scale_max=2" in row["strategy_parameters"] for row in rounds),
              f"scale_max is not recorded: {rounds[0]['strategy_parameters']}")
        said = (workspace.path / "late.log").read_text()
        check(f"event=evaluated version={ROUNDS}" in said, f"who came late: {said}")
        aggregator.verb("verify")
        check_exports(workspace, aggregator)


main(imported_model)
