"""The program of docs/EMBEDDING.md, built by the command that stands there, does the rounds of a
federation, and knows it when it is started again.

Usage: test_program.py BUILD_DIR COMPILER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from prefix import TREE, Prefix, check, main, need_programs
from harness import Aggregator, Workspace

ROUNDS = 8


def command_of_the_document():
    text = (TREE / "docs" / "EMBEDDING.md").read_text()
    found = re.findall(r"^cc .* join\.c .*$", text, re.M)
    check(len(found) == 1, f"docs/EMBEDDING.md builds join.c by {found}")
    check(f"//   {found[0]}\n" in (TREE / "docs/examples/embedding/join.c").read_text(),
          "join.c says another command")
    return found[0]


def build(prefix):
    shutil.copy(TREE / "docs" / "examples" / "embedding" / "join.c", prefix.scratch)
    command = command_of_the_document().replace("cc ", f"{prefix.compiler} -Wall -Wextra -Werror ", 1)
    if prefix.setting("TERN_SHARED") != "ON":
        command = command.replace("--libs", "--libs --static") + " " + " ".join(prefix.sanitizers())
    done = subprocess.run(["sh", "-euc", command], cwd=prefix.scratch, capture_output=True, text=True,
                          check=False, env={**os.environ, "PKG_CONFIG_PATH": str(prefix.find("tern.pc").parent)})
    check(done.returncode == 0, f"{command}:\n{done.stderr}")
    return prefix.scratch / "join"


def losses(said):
    return [float(loss) for loss in re.findall(r"^trained round=\d+ loss=(\S+)$", said, re.M)]


def test():
    need_programs("pkg-config", "openssl")
    with Workspace() as workspace, Prefix(*sys.argv[1:]) as prefix:
        program = build(prefix)
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:2-2"},
            "round": {"rounds": ROUNDS, "min_clients": 1, "cohort": 1, "come_back_min": "10ms",
                      "come_back_max": "50ms"}}).start()
        code = aggregator.join_code()
        said = prefix.call(program, aggregator.url, str(aggregator.ca), code)
        check(said.startswith("enrolled ") and said.rstrip().splitlines()[-1].startswith("finished "), said)
        found = losses(said)
        check(len(found) == ROUNDS and found[-1] < found[0], f"losses of {ROUNDS} rounds: {found}")
        # Its identity is in join-state: the code, which is used up, is not needed any more.
        said = prefix.call(program, aggregator.url, str(aggregator.ca), code)
        check("enrolled" not in said and "finished" in said, f"started again it says {said}")
        check(aggregator.json("status")["rounds_committed"] == ROUNDS, "the aggregator says otherwise")
        strange = pathlib.Path("/nonexistent.crt")
        done = subprocess.run([program, aggregator.url, strange, code], cwd=prefix.scratch, text=True, check=False,
                              capture_output=True, env={**os.environ, "LD_LIBRARY_PATH": str(prefix.find("libtern.a").parent)})
        check(done.returncode == 1 and str(strange) in done.stderr, f"a missing CA file: {done.stderr}")


main(test)
