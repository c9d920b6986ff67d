"""Every codec makes the same bytes of the same values on every machine: payload, error buffer and
what decoding gives back, over rounds that build on each other."""

import json
import math
import pathlib
import random
import struct

from programs import machines
from harness import Workspace, check, main, run

ROUNDS = 3


def specs(machine):
    """Each codec as it comes, and with every choice of each of its keys."""
    for codec in json.loads(run(*machine.program("tern-codec"), "codecs", "--json")):
        yield codec["name"]
        for parameter in codec["parameters"]:
            for choice in parameter.get("choices", []):
                yield f"{codec['name']}:{parameter['key']}={choice}"


def inputs(folder):
    """Like a layer's change, as wide as no vector register is, and with values at the edges."""
    dice = random.Random(7)
    change = [dice.gauss(0, 1) * math.exp(dice.gauss(0, 2)) for _ in range(20011)]
    edges = [0.0, -0.0, 1e-45, -1e-45, 1.2e-38, -1.1e-38, 1e30, -1e30, 1.0, -1.0] * 61
    for name, values in (("change", change), ("edges", edges)):
        path = folder / f"{name}.f32"
        path.write_bytes(struct.pack(f"<{len(values)}f", *values))
        yield path, len(values)


def results(machine, spec, source, count, folder):
    """All bytes that a machine makes of an input with a codec, or why it refuses."""
    codec = machine.program("tern-codec")
    folder.mkdir()
    payload, decoded, buffer = (folder / name for name in ("payload", "decoded", "buffer"))
    made = []
    for number in range(1, ROUNDS + 1):
        text = run(*codec, "encode", spec, source, payload, "--error-buffer", buffer, "--seed", 5,
                   "--round", number, "--client", 3, ok=(0, 1))
        if not payload.exists():
            return [text]
        run(*codec, "decode", payload, decoded, "--count", count)
        made += [path.read_bytes() for path in (payload, decoded, buffer)]
    return made


def test():
    first, *others = machines()
    compared = made_bytes = 0
    with Workspace() as workspace:
        for source, count in inputs(workspace.path):
            for spec in specs(first):
                place = workspace.path / f"{source.stem} {spec}".replace(":", " ")
                place.mkdir()
                expected = results(first, spec, source, count, place / first.name)
                for other in others:
                    check(results(other, spec, source, count, place / other.name) == expected,
                          f"{spec} of {source.stem}: {other.name} makes other bytes than {first.name}")
                compared += len(expected) == 3 * ROUNDS
                made_bytes += sum(map(len, expected))
    check(compared > 60, f"only {compared} pairs of codec and input could be encoded")
    print(f"{compared} pairs of codec and input, {ROUNDS} rounds each, {made_bytes} bytes: the same on "
          f"{', '.join(machine.name for machine in (first, *others))}")


main(test)
