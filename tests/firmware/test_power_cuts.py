"""The power of a device is cut at random moments, again and again. It ends with the model that a PC
comes to which nobody disturbs, bit for bit: no change is lost, and none is counted twice."""
import random
import subprocess
import time

from device import Device, examples, find, images
from harness import Aggregator, Failure, Workspace, check, main
from test_federation import Computer, settings_of, wait_for

ROUNDS = 150
CUTS = 100
LIMIT_S = 240
CHOSEN = ("an385-newlib-ecdsa", "an386-newlib-psk")  # both cores, both ways to connect
SETTINGS = {
    "federation": {"model": "softmax:64-6", "seed": 11},
    "round": {"cohort": 1, "min_clients": 1, "rounds": ROUNDS, "deadline": "1h",
              "come_back_min": "10ms", "come_back_max": "50ms"},
    "train": {"local_steps": 20, "batch_size": 16, "learning_rate": 0.1, "momentum": 0.9},
    "tls": {"psk": "yes"},
}
DATA = examples(200, seed=3)


def undisturbed():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        computer = Computer(workspace, aggregator, "pc", DATA)
        wait_for(computer.start(), "tern-client")
        return aggregator.json("status")["model_sha256"]


def run_until(process, moment):
    """Whether it ended by itself."""
    try:
        code = process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    check(code == 0, f"the device ended with {code}")
    return True


def cut_and_restart(device, port, rng):
    """Returns how often the power was cut."""
    deadline = time.monotonic() + LIMIT_S
    cuts = 0
    while not run_until(device.start(port), rng.uniform(0.05, 0.5) if cuts < CUTS else LIMIT_S):
        cuts += 1
        if time.monotonic() > deadline:
            raise Failure("the device does not come to an end")
    return cuts


def with_cuts(image, expected):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        device = Device(workspace, image, "device", **settings_of(image, workspace, aggregator))
        device.put_data(*DATA)
        # A code is used up when the aggregator has made the client, whether or not it knows.
        device.wait_for_first_start(aggregator.port)
        cuts = cut_and_restart(device, aggregator.port, random.Random(image.name))
        said, status = device.lines(), aggregator.json("status")
        check(not find(said, "started-over"), "a record was damaged")
        check(status["updates_applied"] == ROUNDS, f"applied {status['updates_applied']} updates")
        check(status["model_sha256"] == expected,
              f"after {cuts} cuts the model is {status['model_sha256']}, not {expected}")
        check(cuts >= 50, f"the device was done after {cuts} cuts")
        print(f"{image.name}: {cuts} cuts, {len(find(said, 'trained'))} trainings for {ROUNDS} "
              f"rounds, flash wear {find(said, 'summary')[-1]['flash_wear']}")


def test():
    expected = undisturbed()
    for image in images():
        if image.name in CHOSEN:
            with_cuts(image, expected)


if __name__ == "__main__":
    main(test)
