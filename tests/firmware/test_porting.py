"""The template and the reasons of a stop are those of docs/PORTING.md; so is what it tells a porter to run first, as it stands
but for the port; the device says what it says there. Figures that depend on the network and on time may differ, the used memory by a tenth."""
import os
import pathlib
import re
import subprocess

from device import images
from harness import BIN, Workspace, check, main, with_free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEP = "### 2. See a device take part"
SHOWN = "build/firmware/an385-newlib-ecdsa"
# An update says how many milliseconds its training took, in one byte or two.
VARIES = re.compile(r"(sequence=\d+ bytes|round_wire_bytes|stack|tls|flash_wear)=\d+")


def block(text, kind):
    return re.search(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)[1]


def script(text):
    """Without what ctest has built before, with a port of its own and with an end."""
    lines = re.sub(r"^\./tern build.*\n", "", block(text, "sh"), flags=re.M)
    return with_free_port(lines) + "\nkill %1; wait %1"


def run_script(text, image):
    """What was said on standard output: the aggregator's log, which would come in between the
    characters of the device's, is on standard error."""
    with Workspace() as workspace:
        for shown, real in ((SHOWN, image.elf.parent.resolve()), ("tests", ROOT / "tests")):
            target = workspace.path / shown
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(real)
        environment = dict(os.environ, PATH=f"{BIN.resolve()}:{os.environ['PATH']}")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script(text)], cwd=workspace.path,
                              env=environment, text=True, timeout=600, start_new_session=True,
                              capture_output=True)
        check(done.returncode == 0,
              f"the steps exited {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout


def comparable(text):
    """Lines of the device, with what varies left open; troubles come and go."""
    return [VARIES.sub(r"\1=", line) for line in text.splitlines()
            if re.match(r"[a-z]+ \w+=|done$", line)
            and not line.startswith(("failure", "waiting", "time="))]


def used(lines):
    """The used stack and memory of TLS, as the summary has them."""
    return {name: int(re.search(rf" {name}=(\d+)", lines)[1]) for name in ("stack", "tls")}


def missing(image, step):
    """The functions of the template that the compiler names at this step of the document."""
    cache = (image.elf.parent / "CMakeCache.txt").read_text()
    sources = re.search(r"^TERN_SOURCES:PATH=(.*)$", cache, re.M)[1]
    code = (ROOT / "firmware_port/template/board_template.c").read_text()
    check("#define STEP 4\n" in code, "the template does not begin at step 4")
    folders = [ROOT / "firmware_port", ROOT / "shared", ROOT / "client", image.elf.parent / "generated", f"{sources}/nanopb"]
    done = subprocess.run(["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-fsyntax-only", *(f"-I{folder}" for folder in folders),
                           '-DTERN_BUILD_CONFIG="tern_build.h"', '-DTERN_BOARD_NAME="mine"', "-x", "c", "-"],
                          input=code.replace("#define STEP 4", f"#define STEP {step}"), text=True, capture_output=True, check=False)
    check("error" not in re.sub(r"error: static assertion failed", "", done.stderr), done.stderr)
    return set(re.findall(r"In function '(\w+)'", done.stderr))


def stops_are_those_of_the_firmware():
    """The document's reasons of a stop, `the client: unauthorized`, begin as the firmware's do."""
    main_c = (ROOT / "firmware_port/app/main.c").read_text()
    reasons = set(re.findall(r"`(the [a-z ]+): [a-z-]+`", (ROOT / "docs/PORTING.md").read_text()))
    check(len(reasons) > 3 and all(f'"{reason}")' in main_c for reason in reasons), f"not in app/main.c: {reasons}")


def template_is_filled_in_by_steps():
    """What a step adds is what its section names; the steps after it need not be written."""
    document = (ROOT / "docs/PORTING.md").read_text()
    image = next(image for image in images() if image.name == pathlib.Path(SHOWN).name)
    before = missing(image, 3)
    check(not before, f"before step 4: {before}")
    for step in (4, 5, 7):
        section = document.split(f"\n### {step}. ", 1)[1].split("\n### ", 1)[0]
        added = missing(image, step) - before
        named = {name for name in added if f"`{name}()`" in section}
        others = {"tern_board_stack_used", "read_flash", "program_flash", "erase_flash"}  # step 3; of tern_board_flash()
        check(added and added - named <= others, f"step {step} does not name {added - named}")
        before |= added


def test():
    stops_are_those_of_the_firmware()
    template_is_filled_in_by_steps()
    text = (ROOT / "docs/PORTING.md").read_text().split(STEP, 1)[1]
    chosen = [image for image in images() if image.name == pathlib.Path(SHOWN).name]
    check(chosen, f"there is no image {SHOWN}")
    shown, printed = block(text, "text"), run_script(text, chosen[0])
    for name, most in used(printed).items():
        check(abs(most - used(shown)[name]) <= most / 10, f"{name} is {most}, the document has {used(shown)[name]}")
    expected, said = comparable(shown), comparable(printed)
    check(len(expected) > 10, f"the document shows only {len(expected)} lines")
    check(said == expected, "the device says:\n" + "\n".join(said) +
          "\nthe document:\n" + "\n".join(expected))
    print(f"{len(said)} lines as docs/PORTING.md has them")


if __name__ == "__main__":
    main(test)
