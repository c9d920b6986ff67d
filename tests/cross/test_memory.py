"""The most memory that tern-client holds over rounds of an MLP for images of 28 x 28, on each machine.

An emulator's own memory is no device's, so the program's address space is placed at a known address
of the emulator (-B, -R) and only the pages there are counted: those that a device would hold, of
program, heap and stacks alike. The program is to be static: its libraries would be counted, too.
On this machine's own processor it is the kernel's high-water mark. The client trains on a fiftieth
of Fashion-MNIST, in the folder that TERN_DATA_DIR names; without one, of as many made-up images.
"""

import gzip
import os
import pathlib
import random
import struct
import time

from programs import machines
from harness import Aggregator, Workspace, check, main, run

MOST = 12 << 20
ROUNDS = 5
TRAIN, SIDE, SHARDS = 60000, 28, 50
GUEST, GUEST_SIZE = 0x100000000000, 0xffffffff  # qemu-arm takes no other


def write_idx(path, dims, values):
    header = bytes([0, 0, 8, len(dims)]) + struct.pack(f">{len(dims)}I", *dims)
    path.write_bytes(gzip.compress(header + bytes(values), 1))


def make_images(folder):
    dice = random.Random(3)
    write_idx(folder / "train-images-idx3-ubyte.gz", (TRAIN, SIDE, SIDE),
              dice.randbytes(TRAIN * SIDE * SIDE))
    write_idx(folder / "train-labels-idx1-ubyte.gz", (TRAIN,), [i % 10 for i in range(TRAIN)])


def images(workspace):
    """The folder of the images, and what they are."""
    given = os.environ.get("TERN_DATA_DIR")
    if not given:
        make_images(workspace.path)
        return workspace.path, "made-up images"
    folder = pathlib.Path(given)
    nested = folder / "fashion-mnist"
    return nested if nested.is_dir() else folder, "images of Fashion-MNIST"


def guest_bytes(process):
    """Resident bytes of the mappings within the guest's address space."""
    total, inside = 0, False
    for line in pathlib.Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if "-" in first and not first.endswith(":"):
            inside = GUEST <= int(first.split("-")[0], 16) < GUEST + GUEST_SIZE
        elif inside and first == "Rss:":
            total += int(line.split()[1]) * 1024
    return total


def own_bytes(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def command(machine):
    program = machine.program("tern-client")
    if machine.emulator:
        program[1:1] = ["-B", hex(GUEST), "-R", hex(GUEST_SIZE)]
    return program


def peak(machine, process):
    """Samples until the process ends."""
    read = guest_bytes if machine.emulator else own_bytes
    most, end = 0, time.monotonic() + 600
    while process.poll() is None:
        check(time.monotonic() < end, f"the client on {machine.name} does not end")
        try:
            most = max(most, read(process))
        except OSError:
            pass  # it ended meanwhile
        time.sleep(0.002)
    check(process.returncode == 0, f"the client on {machine.name} exited {process.returncode}")
    return most


def measure(machine, folder):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:784-128-10", "seed": 1},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": ROUNDS,
                      "come_back_min": "10ms", "come_back_max": "100ms"},
            "train": {"local_steps": 20, "batch_size": 32, "momentum": 0.4},
        }).start()
        keys = {"client.server": aggregator.url, "client.ca": aggregator.ca,
                "client.state_dir": workspace.path / "client",
                "data.source": f"idx:{folder}", "data.shard": f"1/{SHARDS}"}
        options = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
        run(*command(machine), "enroll", aggregator.join_code(), *options)
        most = peak(machine, workspace.start(*command(machine), "run", *options, log="client"))
        log = (workspace.path / "client.log").read_text()
        check(log.count("event=uploaded") == ROUNDS, "the client missed rounds")
        return most


def test():
    with Workspace() as workspace:
        folder, what = images(workspace)
        for machine in machines():
            most = measure(machine, folder)
            print(f"{machine.name}: {most:,} bytes resident at most, mlp:784-128-10, "
                  f"1/{SHARDS} of {TRAIN:,} {what}")
            if machine.emulator:
                check(1 << 20 < most < MOST, f"{machine.name}: {most} bytes, over {MOST}")


main(test)
