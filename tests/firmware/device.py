"""One microcontroller: QEMU with an image of the firmware, its flash and its data in a file.

The file is what the board has as PSRAM (firmware_port/boards/qemu_mps2/mps2.h). It survives a
kill, as flash does. QEMU gives the device a network of its own, which leads nowhere but to the
aggregator on loopback.
"""
import array
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import PATIENCE, Failure, skip

PSRAM = 16 << 20
FLASH = 64 << 10
DATA = 1 << 20
RELAY = pathlib.Path(__file__).parent / "relay.py"
BOARDS = {"an385": "mps2-an385", "an386": "mps2-an386"}
FEATURES, CLASSES, SIDE = 64, 6, 8  # softmax:64-6 on images of 8 x 8


def examples(count, seed):
    """Images of 8 x 8 bytes, one bright stripe per class in noise, and their labels."""
    rng = random.Random(seed)
    labels = [rng.randrange(CLASSES) for _ in range(count)]
    images = bytearray()
    for label in labels:
        for pixel in range(FEATURES):
            bright = pixel // SIDE == label + 1
            images.append(min(255, max(0, int(rng.gauss(170 if bright else 90, 60)))))
    return bytes(images), labels


def write_idx(folder, images, labels):
    """The same examples for tern-client: data.source = idx:FOLDER."""
    folder.mkdir()
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 0x803, len(labels), SIDE, SIDE) + images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, len(labels)) + bytes(labels))


class Image:
    """What ./tern firmware built; named BOARD-LIBC-TLS, or BOARD-LIBC-TLS-KIND when the error
    buffer is not kept in float32, or the client is that of secure rounds. tls: which one of both is used, where both are built in."""

    def __init__(self, folder, tls=None):
        board, self.libc, built, *kind = folder.name.split("-")
        self.secure = kind == ["secure"]
        self.name, self.board, self.elf = folder.name, BOARDS[board], folder / "tern.elf"
        self.tls, self.storage = tls or built, kind[0] if kind and not self.secure else "float32"
        if self.tls != built:
            self.name += f" by {self.tls}"


def every_image():
    """Those of TERN_FIRMWARE_IMAGES, else every image that there is, in TERN_FIRMWARE_DIR of ctest;
    twice, where it has both TLS."""
    folder = pathlib.Path(os.environ.get("TERN_FIRMWARE_DIR", "build/firmware"))
    chosen = os.environ.get("TERN_FIRMWARE_IMAGES", "").split()
    found = [Image(elf.parent) for elf in sorted(folder.glob("*-*-*/tern.elf"))
             if not chosen or elf.parent.name in chosen]
    if not found or shutil.which("qemu-system-arm") is None:
        skip("./tern firmware has built no image, or there is no qemu-system-arm")
    return [Image(image.elf.parent, tls) for image in found
            for tls in (("ecdsa", "psk") if image.tls == "both" else (image.tls,))]


def images():
    """Those with one kind of TLS and a float32 error buffer."""
    return [image for image in every_image()
            if image.name == image.elf.parent.name and image.storage == "float32" and not image.secure]


class Device:
    """Settings are those of firmware_port/boards/qemu_mps2/settings.c."""

    def __init__(self, workspace, image, name, **settings):
        self.workspace, self.image, self.name = workspace, image, name
        self.chips = workspace.path / f"{name}.psram"
        if not self.chips.exists():
            self._make_chips()
        self.settings = {"name": name, "address": "10.0.2.15", "gateway": "10.0.2.2",
                         "server_address": "10.0.2.100", "port": 443, "host": "localhost",
                         **settings}
        self.runs = 0

    def _make_chips(self):
        with open(self.chips, "wb") as chips:
            chips.write(b"\xff" * FLASH)
            chips.truncate(PSRAM)

    def put_data(self, images, labels):
        scale = struct.unpack("<f", struct.pack("<f", 1.0 / 255.0))[0]
        head = struct.pack("<4s3I2f", b"TDD1", len(labels), FEATURES, CLASSES, scale, 0.0)
        padding = b"\0" * (-len(images) % 4)
        with open(self.chips, "r+b") as chips:
            chips.seek(DATA)
            chips.write(head + images + padding + array.array("H", labels).tobytes())

    def flash(self):
        with open(self.chips, "rb") as chips:
            return chips.read(FLASH)

    @property
    def log(self):
        return self.workspace.path / f"{self.name}.log"

    def lines(self):
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def command(self, port):
        arguments = "".join(f",arg={key}={str(value).replace(',', ',,')}"
                            for key, value in self.settings.items())
        return ["qemu-system-arm", "-M", f"{self.image.board},memory-backend=psram",
                "-object", f"memory-backend-file,id=psram,size=16M,mem-path={self.chips},share=on",
                "-display", "none", "-monitor", "none", "-serial", "stdio",
                "-nic", "user,model=lan9118,restrict=on,"
                        f"guestfwd=tcp:10.0.2.100:443-cmd:{RELAY} {port}",
                "-semihosting-config", f"enable=on,target=native{arguments}",
                "-kernel", str(self.image.elf)]

    def start(self, port):
        self.runs += 1
        return self.workspace.start(*self.command(port), log=self.name)

    def wait_until(self, name, timeout, count=1):
        """Waits for `count` lines of the log that begin with `name`."""
        deadline = time.monotonic() + timeout
        while len(find(self.lines(), name)) < count:
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} never said {name!r}")
            time.sleep(0.02)

    def wait_for_first_start(self, port, timeout=PATIENCE):
        """Starts it until it knows who it is, then takes the power away."""
        process = self.start(port)
        self.wait_until("started", timeout)
        process.kill()
        process.wait()

    def run(self, port, timeout=PATIENCE, ok=(0,)):
        """Runs to the end; returns what this run said."""
        before = len(self.lines())
        process = self.start(port)
        try:
            code = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        said = self.lines()[before:]
        if code not in ok:
            raise Failure(f"{self.name} ended with {code}: " + "\n".join(said[-15:]))
        return said


def fields(line):
    """The KEY=VALUE pairs of a line of the log."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def find(lines, name):
    """The fields of every line that begins with `name`."""
    return [fields(line) for line in lines if line.split(" ", 1)[0] == name]
