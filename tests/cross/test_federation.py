"""A federation of clients on several kinds of machines is the federation of as many clients on one
kind: every update and every version of the model has the same bytes."""

import json
import sys

from programs import machines
from harness import Aggregator, Workspace, check, main, run
from history import history

ROUNDS = 3
CODECS = ("default", "float32", "qsgd", "dgc:p=0.05")  # of updates
DATA = "digits:train=600,test=100,size=16,seed=4"


def settings(codec, clients):
    return {
        "federation": {"model": "mlp:256-32-10", "seed": 9},
        "round": {"cohort": clients, "quorum": clients, "min_clients": clients, "rounds": ROUNDS,
                  "come_back_min": "10ms", "come_back_max": "100ms"},
        "train": {"local_steps": 5, "batch_size": 16, "momentum": 0.5},
        "codec": {"codec": codec, "codec_down": "default"},
    }


def options(aggregator, index, count):
    keys = {"client.server": aggregator.url, "client.ca": aggregator.ca,
            "client.state_dir": aggregator.workspace.path / f"client{index}", "client.wait": "2s",
            "data.source": DATA, "data.shard": f"{index}/{count}"}
    return [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]


def check_meter(machine, its_options):
    """An emulator's kernel does not say how many bytes a connection took; then they are estimated."""
    meter = json.loads(run(*machine.program("tern-client"), "meter", "--json", *its_options))
    for direction in ("up", "down"):
        total = meter[direction]["total"]
        check(total["wire"] > total["tls"] > total["http"] > total["payload"] > 0,
              f"the client on {machine.name} metered {total} {direction}")


def federation(codec, clients):
    """Runs to the end and returns its history; client i is of clients[i]'s architecture."""
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, settings(codec, len(clients))).start()
        code = aggregator.join_code(uses=len(clients))
        started = []
        for index, machine in enumerate(clients, 1):
            run(*machine.program("tern-client"), "enroll", code,
                *options(aggregator, index, len(clients)))
        for index, machine in enumerate(clients, 1):
            started.append(workspace.start(*machine.program("tern-client"), "run",
                                           *options(aggregator, index, len(clients)),
                                           log=f"client{index}"))
        for machine, process in zip(clients, started):
            code = process.wait(timeout=900)
            check(code == 0, f"the client on {machine.name} exited {code}")
        for index, machine in enumerate(clients, 1):
            check_meter(machine, options(aggregator, index, len(clients)))
        aggregator.verb("verify")
        return history(aggregator)


def test():
    native, *others = machines()
    mixed = [native, *others]
    for codec in CODECS:
        updates, versions = federation(codec, mixed)
        check(len(updates) == ROUNDS * len(mixed), f"{codec}: {len(updates)} updates were stored")
        alike = federation(codec, [native] * len(mixed))
        for ours, theirs in zip(updates, alike[0]):
            check(ours == theirs, f"{codec}, round {ours[0]}: {mixed[ours[1] - 1].name} makes another "
                                  f"update than {native.name} in its place")
        check(versions == alike[1], f"{codec}: other models than when all are {native.name}")
        print(f"{codec}: {ROUNDS} rounds of {', '.join(machine.name for machine in mixed)}: "
              f"{len(updates)} updates and {len(versions)} versions are those of {native.name} alone")
        sys.stdout.flush()


main(test)
