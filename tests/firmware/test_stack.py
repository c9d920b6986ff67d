"""A stack that overflows is noticed: it is the lowest of the board's RAM, so that the first word too
many faults, and the board says by name what happened instead of going on with damaged variables."""
import pathlib
import shutil

from device import BOARDS, Device
from harness import Workspace, check, main, run, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOARD = ROOT / "firmware_port/boards/qemu_mps2"
CORES = {"an385": ["-mcpu=cortex-m3"],
         "an386": ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]}
DEPTHS = {3: True, 40: True, 60: False, 100: False, 100_000: False}  # frames of 120 bytes in 6 KiB
OVERFLOWED = "the stack overflowed"


class Probe:
    """The board's own startup code and memory layout around a program that calls itself."""

    def __init__(self, folder, board):
        self.name, self.board, self.elf = board, BOARDS[board], folder / f"{board}.elf"
        sources = [BOARD / f"{part}.c" for part in ("startup", "board", "settings", "semihosting")]
        sources.append(ROOT / "shared/util/bytes.c")  # reads the settings' numbers
        run("arm-none-eabi-gcc", *CORES[board], "-mthumb", "-Os", "-std=gnu11", "-fno-short-enums",
            "-ffunction-sections", "-fdata-sections", "-fno-optimize-sibling-calls",
            '-DTERN_BUILD_CONFIG="tern_build.h"', '-DTERN_BOARD_NAME="probe"',
            f"-I{ROOT}/shared", f"-I{ROOT}/client", f"-I{ROOT}/firmware_port",
            ROOT / "tests/firmware/stack_overflow.c", *sources, "--specs=nano.specs",
            "-nostartfiles", "-Wl,--gc-sections", "-Wl,--no-enum-size-warning",
            "-T", BOARD / "memory.ld", "-o", self.elf)


def check_depth(workspace, image, depth, is_well):
    device = Device(workspace, image, f"{image.name}-{depth}", rounds=depth)
    said = device.run(1, timeout=100, ok=(0,) if is_well else (1,))
    check(said[-1] == ("back again" if is_well else OVERFLOWED),
          f"{image.name}, {depth} frames deep, said {said}")


def test():
    if shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None:
        skip("there is no compiler for microcontrollers, or no QEMU")
    with Workspace() as workspace:
        for board in CORES:
            image = Probe(workspace.path, board)
            for depth, is_well in DEPTHS.items():
                check_depth(workspace, image, depth, is_well)
            print(f"{board}: an overflow is noticed")


if __name__ == "__main__":
    main(test)
