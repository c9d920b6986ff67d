"""Boots an image of the firmware in QEMU, by hand, with a small data set. docs/PORTING.md uses it.

Usage: boot.py IMAGE PORT FOLDER [KEY=VALUE...]
  IMAGE      what ./tern firmware built, say build/firmware/an385-newlib-ecdsa
  PORT       of an aggregator on this machine; the device reaches it as 10.0.2.100:443
  FOLDER     for the device's chips. Booted again with the same folder, it is the same device.
  KEY=VALUE  its settings, see firmware_port/boards/qemu_mps2/settings.c
"""
import os
import pathlib
import sys

from device import Device, Image, examples


class Folder:
    """Where a device's files are; nothing is started or removed here."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(exist_ok=True)


def main():
    words = sys.argv[1:]
    if len(words) < 3 or not words[1].isdigit() or any("=" not in word for word in words[3:]):
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(words[0])
    if not (folder / "tern.elf").exists():
        print(f"boot.py: there is no {folder}/tern.elf; ./tern firmware builds it", file=sys.stderr)
        return 2
    device = Device(Folder(words[2]), Image(folder), "device",
                    **dict(word.split("=", 1) for word in words[3:]))
    device.put_data(*examples(200, seed=1))
    command = device.command(int(words[1]))
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
