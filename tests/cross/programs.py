"""Tern's programs of several architectures, as ./tern cross names them on the command line:

    NAME=FOLDER[,EMULATOR...]     e.g. armhf=build/cross/armhf/static/bin,qemu-arm-static
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))


class Machine:
    def __init__(self, text):
        self.name, _, rest = text.partition("=")
        folder, *self.emulator = rest.split(",")
        self.folder = pathlib.Path(folder)

    def program(self, name):
        """The beginning of a command that runs one of its programs."""
        return [*self.emulator, self.folder / name]


def machines():
    found = [Machine(argument) for argument in sys.argv[1:]]
    if len(found) < 2:
        sys.exit(f"usage: {sys.argv[0]} NAME=FOLDER[,EMULATOR...] NAME=...")
    return found
