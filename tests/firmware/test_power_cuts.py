"""The power of a device is cut at random moments, again and again, in every phase of a round.

What it checks is conservation: what the device trained is in the model once, or in its error
buffer, or in its pending update. A change that was lost or counted twice would make another model
than that of a PC which nobody disturbs, and every later round would carry the difference on. So
the equation holds when the models are the same, bit for bit, after as many updates."""
import collections
import contextlib
import random
import signal
import subprocess
import time

from device import Device, examples, find, images
from harness import Aggregator, Workspace, check, main
from test_federation import Computer, settings_of, wait_for

ROUNDS = 120
CUTS, CUTS_MIN, CUTS_MOST = 60, 50, 150
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


SOON = "soon"  # before the first line

# What a device does behind each line of its log, up to the next one.
PHASES = {
    SOON: "starting", "started": "checking in", "task": "downloading", "downloaded": "training",
    "trained": "encoding, saving", "encoded": "uploading", "uploaded": "settling, checking in",
    "failure": "waiting", "waiting": "waiting",
}
# Every other cut is to hit the phase that had the fewest so far, because some are too short to be
# met by chance: it waits for the line, and then for a random while, which becomes shorter whenever
# it was longer than the phase.
LINES = [SOON, "started", "task", "downloaded", "trained", "encoded", "uploaded"]
LEAST = 3  # cuts in each phase but the waits


def said_since(device, begin):
    """Whole lines of the log behind `begin`."""
    text = device.log.read_bytes()[begin:].decode(errors="replace")
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def wait_for_line(device, process, begin, line):
    until = time.monotonic() + LIMIT_S
    while process.poll() is None and not find(said_since(device, begin), line):
        check(time.monotonic() < until, f"the device never said {line!r}")
        time.sleep(0.001)


def run_until_cut(device, port, line, seconds):
    """The phase in which it was cut; None: it came to its end before. seconds: after the line, or
    without one after the start."""
    begin = device.log.stat().st_size
    process = device.start(port)
    if line not in (None, SOON):
        wait_for_line(device, process, begin, line)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    process.kill()
    if process.wait() != -signal.SIGKILL:
        check(process.returncode == 0, f"the device ended with {process.returncode}")
        return None
    said = said_since(device, begin)
    return PHASES[said[-1].split()[0] if said else SOON]


def rare(phases):
    return [line for line in LINES if phases[PHASES[line]] < LEAST]


def cut_and_restart(device, port, rng):
    """Returns how often the power was cut, by phase."""
    phases = collections.Counter()
    longest = {line: 0.08 if line is SOON else 0.01 for line in LINES}
    while phases.total() < CUTS or (rare(phases) and phases.total() < CUTS_MOST):
        line = min(LINES, key=lambda each: phases[PHASES[each]]) if phases.total() % 2 else None
        phase = run_until_cut(device, port, line, rng.uniform(0, longest.get(line, 0.3)))
        if phase is None:
            break
        if line is not None and phase != PHASES[line]:
            longest[line] /= 2
        phases[phase] += 1
    return phases


def with_cuts(image, expected):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        device = Device(workspace, image, "device", **settings_of(image, workspace, aggregator))
        device.put_data(*DATA)
        # A code is used up when the aggregator has made the client, whether or not it knows.
        device.wait_for_first_start(aggregator.port)
        phases = cut_and_restart(device, aggregator.port, random.Random(image.name))
        cuts = phases.total()
        check(cuts >= CUTS_MIN, f"the device was done after {cuts} cuts")
        at_end = aggregator.json("status")["version"]
        device.run(aggregator.port, timeout=LIMIT_S)
        said, status = device.lines(), aggregator.json("status")
        check(not find(said, "started-over"), "a record was damaged")
        check(status["updates_applied"] == ROUNDS, f"applied {status['updates_applied']} updates")
        check(status["model_sha256"] == expected,
              f"after {cuts} cuts the model is {status['model_sha256']}, not {expected}")
        check(not rare(phases), f"too few cuts behind {rare(phases)}: {phases}")
        print(f"{image.name}: {cuts} cuts in {at_end} rounds, {len(find(said, 'trained'))} "
              f"trainings for {ROUNDS}, flash wear {find(said, 'summary')[-1]['flash_wear']}")
        for phase, count in phases.most_common():
            print(f"  {phase:<22} {count:3} {'#' * count}")


def test():
    expected = undisturbed()
    for image in images():
        if image.name in CHOSEN:
            with_cuts(image, expected)


if __name__ == "__main__":
    main(test)
