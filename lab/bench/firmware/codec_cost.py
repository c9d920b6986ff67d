"""Instructions that codecs take per value on microcontrollers, as a table.

Usage: codec_cost.py [table | save]
  table  also prints the change since codec_cost.json, and fails when a codec got much dearer
  save   makes these figures the ones that later changes are measured against

Builds codec_cost.c for Cortex-M3 (no FPU) and Cortex-M4F, each with the kernels that the core gets and
with those of plain C for vectors, and runs it in QEMU, whose clock counts instructions: the same
code costs the same, on every machine.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BENCH = f"{SOURCE}/lab/bench/firmware"
BOARD = f"{SOURCE}/firmware_port/boards/qemu_mps2"
FOLDERS = ["codec", "codec/quantizers", "codec/coders", "codec/kernels", "util"]
CORES = {
    "Cortex-M3": ("mps2-an385", ["-mcpu=cortex-m3"]),
    "Cortex-M4F": ("mps2-an386", ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]),
}
BASELINE = f"{BENCH}/codec_cost.json"
MAX_GROWTH = 1.25
COSTS = ("encode", "decode", "add")
KERNELS = {"scalar": [], "portable": ["-DTERN_KERNELS_SCALAR=0"]}


def build(folder, core, kernels):
    """The image, linked."""
    image = os.path.join(folder, "codec_cost.elf")
    sources = [f"{BENCH}/codec_cost.c", f"{BOARD}/startup.c", f"{BOARD}/semihosting.c"]
    for part in FOLDERS:
        sources += sorted(glob.glob(f"{SOURCE}/shared/{part}/*.c"))
    subprocess.run(
        ["arm-none-eabi-gcc", "-mthumb", "-Os", "-std=gnu11", "-fno-short-enums",
         "-ffp-contract=off", "-ffunction-sections", "-fdata-sections", "-DNDEBUG",
         '-DTERN_BUILD_CONFIG="bench_build.h"', *CORES[core][1], *KERNELS[kernels],
         f"-I{BENCH}", f"-I{SOURCE}/shared", f"-I{SOURCE}/firmware_port", f"-I{SOURCE}/client", *sources,
         "--specs=nano.specs", "-nostartfiles", "-Wl,--gc-sections", "-Wl,--no-enum-size-warning",
         "-T", f"{BOARD}/memory.ld", "-o", image],
        check=True)
    return image


def run(image, machine):
    """{spec: [numbers]} of what the image prints."""
    done = subprocess.run(
        ["qemu-system-arm", "-M", machine, "-nographic", "-monitor", "none", "-serial", "stdio",
         "-icount", "shift=0", "-semihosting-config", "enable=on,target=native",
         "-kernel", image],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    rows = (line.split() for line in done.stdout.splitlines() if line.strip())
    return {row[0]: [int(number) for number in row[1:]] for row in rows}


def measure():
    """{core: {kernels: {spec: {encode, decode, add: instructions for a value; bytes}}}}"""
    costs = {}
    for core, (machine, _) in CORES.items():
        costs[core] = {}
        for kernels in KERNELS:
            with tempfile.TemporaryDirectory() as folder:
                rows = run(build(folder, core, kernels), machine)
            costs[core][kernels] = {
                spec: {**{cost: row[i] / 100 for i, cost in enumerate(COSTS)}, "bytes": row[-1]}
                for spec, row in rows.items()}
    return costs


def rows_of(costs):
    """Yields ((core, kernels, spec), figures)."""
    for core, by_kernels in costs.items():
        for kernels, by_spec in by_kernels.items():
            for spec, figures in by_spec.items():
                yield (core, kernels, spec), figures


def change(now, before):
    if before is None:
        return "new"
    # Differences below a tenth of an instruction come from the counter's resolution.
    return "=" if abs(now - before) < 0.1 else f"{100 * (now / before - 1):+.0f}%"


def print_table(costs, before):
    head = "".join(f"{cost:>8}{'change':>7}" for cost in COSTS)
    print(f"{'core':11} {'kernels':9} {'codec':27}{head} {'bytes':>6}")
    for name, figures in rows_of(costs):
        old = before.get(name, {})
        row = "".join(f"{figures[cost]:8.1f}{change(figures[cost], old.get(cost)):>7}"
                      for cost in COSTS)
        print(f"{name[0]:11} {name[1]:9} {name[2]:27}{row} {figures['bytes']:6}")


def dearer(costs, before):
    """Sentences. A codec that is not measured any more is one, too: save says that it is meant."""
    now = dict(rows_of(costs))
    for name, old in before.items():
        if name not in now:
            yield f"{' '.join(name)} is not measured any more"
            continue
        for cost in COSTS:
            if now[name][cost] > MAX_GROWTH * old[cost]:
                yield (f"{' '.join(name)}: {cost} takes {now[name][cost]:.1f} instructions for a "
                       f"value, and took {old[cost]:.1f}")


def main(verb="table"):
    costs = measure()
    before = {}
    if os.path.exists(BASELINE):
        with open(BASELINE) as file:
            before = dict(rows_of(json.load(file)))
    print_table(costs, before)
    if verb == "save":
        with open(BASELINE, "w") as file:
            file.write(json.dumps(costs, indent=1) + "\n")
        return 0
    wrong = list(dearer(costs, before))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["table"], ["save"]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
