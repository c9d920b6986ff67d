"""Runs tern-aggregator on a state directory of its own. Standard library only."""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

BIN = pathlib.Path(os.environ["TERN_BIN_DIR"])
TEST_BIN = pathlib.Path(os.environ["TERN_TEST_BIN_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = "mlp:16-8-4"
VALUES = 172
OK, FAILED, USAGE, REFUSED, NOTHING = range(5)


class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.error = done.stderr.decode()

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        return json.loads(self.out)


class State:
    """A state directory; removed with its temporary folder."""

    def __init__(self, rounds=None):
        self.folder = tempfile.TemporaryDirectory(prefix="tern-cli-")
        self.root = pathlib.Path(self.folder.name)
        self.path = self.root / "state"
        if rounds is not None:
            shutil.copytree(filled(rounds).path, self.path)

    def run(self, *arguments, code=OK, says=None, state=True):
        """Runs a verb; checks its exit code and what its errors say."""
        command = [BIN / "tern-aggregator", *map(str, arguments)]
        if state:
            command += ["--state", self.path]
        result = Result(subprocess.run(command, capture_output=True, timeout=150, check=False))
        shown = " ".join(map(str, arguments))
        assert result.code == code, f"{shown}: exit {result.code}, not {code}: {result.error}"
        if says is not None:
            assert says in result.error, f"{shown}: {result.error!r} does not say {says!r}"
        return result

    def json(self, *arguments, code=OK):
        return self.run(*arguments, "--json", code=code).json


@functools.cache
def filled(rounds):
    """Makes a federation of so many rounds, once a process: a sanitizer's build takes half a second. Each test gets a copy;
    copies have the same identity."""
    state = State()
    state.run("init", "--model", MODEL, "--seed", "7")
    subprocess.run([TEST_BIN / "make_federation", state.path / "tern.db", str(rounds)], check=True)
    return state


def insert(database, table, **values):
    """Adds a row; columns that are not given are zero or empty."""
    empty = {"INTEGER": 0, "REAL": 0.0, "TEXT": "", "BLOB": bytes(32)}
    columns = {row[1]: empty[row[2]] for row in database.execute(f"PRAGMA table_info({table})")}
    columns.update(values)
    database.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                     list(columns.values()))


def unused_functions():
    """Functions of the script that it names nowhere else: tests that nobody runs."""
    source = pathlib.Path(sys.argv[0]).read_text()
    return [name for name in re.findall(r"^def (\w+)\(", source, re.MULTILINE)
            if len(re.findall(rf"\b{name}\b", source)) == 1]


def main(*tests, sanitized=None):
    """Runs every test on a fresh start; the exit code is for ctest. sanitized: those that a sanitizer runs without
    TERN_LONG_TESTS, which starts programs in three times the time."""
    failed = 0
    if sanitized is not None and os.environ.get("TERN_SANITIZED") and "TERN_LONG_TESTS" not in os.environ:
        tests = sanitized
    for name in unused_functions():
        failed += 1
        print(f"FAILED  {name} is not run: name it in main()", file=sys.stderr)
    for test in tests:
        try:
            test()
            print(f"ok      {test.__name__}")
        except Exception:  # a broken test must not hide the others
            failed += 1
            print(f"FAILED  {test.__name__}", file=sys.stderr)
            traceback.print_exc()
    sys.exit(1 if failed else 0)
