"""Every command that the README, CONTRIBUTING.md and the documents show.

The commands of docs/GUIDE.md are run in an empty directory, as they stand but for the port. In the other
documents, the program must know each verb and option, and the tree must have each file that is named.
"""

import itertools
import os
import pathlib
import re
import shlex
import subprocess

from harness import BIN, Workspace, check, main, with_free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_STEP = "## 2. A table to learn from"
AFTER_LAST_STEP = "## From here to real devices"


def shell_blocks(text):
    return re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)


def sample_pattern(line):
    """A line of a sample output as a pattern: other numbers, another class and the left-out part of a long line match, too."""
    number = "[0-9][0-9.]*"
    pattern = number.join(re.escape(part) for part in re.split(number, line))
    return re.sub(r"(worst\\ class:\\ )\w+", r"\1\\w+", pattern).replace(r"\.\.\.", ".*")


def check_samples(text, output):
    """The sample outputs of the guide are those of its programs."""
    lines = [line for block in re.findall(r"^```text\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]
    check(len(lines) > 10, "the guide has no sample outputs")
    for line in lines:
        check("improving" in line or re.search(sample_pattern(line), output), f"no program prints the guide's {line!r}:\n{output}")


def run_guide(text):
    """The blocks as one script. It starts processes in the background, so a process group ends them."""
    script = "".join(shell_blocks(text.split(FIRST_STEP, 1)[1].split(AFTER_LAST_STEP, 1)[0]))
    check(script.count("sed \"") == 1, "the guide makes each client's settings by another command")
    script = script.replace("sed \"", "sed \"s/8443/$(cat port)/; ")
    script = with_free_port(script, port="8443")
    with Workspace() as workspace:
        environment = dict(os.environ, PATH=f"{BIN.resolve()}:{os.environ['PATH']}")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script + "\nkill %1; wait %1"],
                              cwd=workspace.path, env=environment, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        check(done.returncode == 0, f"the guide exited {done.returncode}:\n{done.stdout}")
        for sign in ("Accuracy    0.", "macro F1 0.", "finished: round.rounds = 94 are done", "This client alone: accuracy 0.",
                     "Wrote the global model of version 94", "right\n", "per client and round on the wire"):
            check(sign in done.stdout, f"the guide never shows {sign!r}:\n{done.stdout}")
        check_samples(text, done.stdout)


def known_options(command):
    program, *words = command
    path = ROOT / "tern" if program == "./tern" else BIN / program
    verb = [word for word in words if not word.startswith("-")][:1]
    done = subprocess.run([path, *verb, "--help"], capture_output=True, text=True, timeout=120)
    check(done.returncode == 0, f"{program} {verb} is not a command")
    return done.stdout


def words_of(line):
    """The first command of a line, without what it is connected to."""
    parts = shlex.shlex(line, posix=True, punctuation_chars=True)
    parts.whitespace_split = True
    return list(itertools.takewhile(lambda part: not part or not set(part) <= set("();<>|&"), parts))


def check_command(line):
    words = words_of(line)
    if not words or (words[0] != "./tern" and not words[0].startswith("tern-")):
        return 0
    known = known_options(words)
    for word in words[1:]:
        if word.startswith("--"):
            check(word.split("=")[0] in known, f"{line!r}: {word} is not in the help of {words[0]}")
        elif word.startswith(("configs/", "docs/", "tests/")):
            check((ROOT / word).exists(), f"{line!r}: there is no {word}")
    return 1


def test():
    readme = (ROOT / "README.md").read_text()
    commands = 0
    for document in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")):
        for block in shell_blocks(document.read_text()):
            for line in block.replace("\\\n", " ").split("\n"):
                commands += check_command(line)
    check(commands >= 60, f"only {commands} commands were found: is the pattern still right?")
    for name in re.findall(r"\]\(((?:docs|configs|tests)/[^)#]+)", readme):
        check((ROOT / name).exists(), f"README links to {name}, which is not there")
    run_guide((ROOT / "docs/GUIDE.md").read_text())
    print(f"{commands} commands checked, the guide ran")


main(test)
