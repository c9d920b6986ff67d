"""Instructions that codecs take per value on microcontrollers, as a table.

Usage: codec_cost.py [SOURCE_DIR]
Builds codec_cost.c for Cortex-M3 (no FPU) and Cortex-M4F, each with the kernels that the core gets and
with those of plain C for vectors, and runs it in QEMU, whose clock counts instructions.
"""
import glob
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else
                         os.path.join(os.path.dirname(__file__), "../../.."))
BENCH = f"{SOURCE}/tests/bench/firmware"
BOARD = f"{SOURCE}/firmware_port/boards/qemu_mps2"
FOLDERS = ["codec", "codec/quantizers", "codec/coders", "codec/kernels", "util"]
CORES = {
    "Cortex-M3": ("mps2-an385", ["-mcpu=cortex-m3"]),
    "Cortex-M4F": ("mps2-an386", ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]),
}
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
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    rows = (line.split() for line in done.stdout.splitlines() if line.strip())
    return {row[0]: [int(number) for number in row[1:]] for row in rows}


def main():
    print(f"{'core':11} {'kernels':9} {'codec':27} {'encode':>7} {'decode':>7} {'add':>7} {'bytes':>6}")
    for core, (machine, _) in CORES.items():
        for kernels in KERNELS:
            with tempfile.TemporaryDirectory() as folder:
                rows = run(build(folder, core, kernels), machine)
            for spec, (encode, decode, add, size) in rows.items():
                print(f"{core:11} {kernels:9} {spec:27} {encode / 100:7.1f} {decode / 100:7.1f} "
                      f"{add / 100:7.1f} {size:6}")


if __name__ == "__main__":
    main()
