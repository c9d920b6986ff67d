"""Verbs that read do so where nothing can be written: a backup or a snapshot that is mounted read-only, or the files
of another user."""
import json
import os
import pathlib
import pwd
import shutil
import sqlite3
import stat
import subprocess
import tempfile

from cli import BIN, FAILED, State, main

READING = (["status"], ["clients"], ["rounds"], ["report", "bytes"], ["report", "fairness"], ["replicas"],
           ["schedule"], ["ledger"], ["codes"], ["verify"])


class Stranger:
    """Runs verbs as a user that may only read the state directory. For root that is another one."""

    def __init__(self, folder):
        self.folder = folder
        self.user = {"user": pwd.getpwnam("nobody").pw_uid, "group": pwd.getpwnam("nobody").pw_gid,
                     "extra_groups": []} if os.geteuid() == 0 else {}
        for path in (folder, *folder.iterdir()):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222 | 0o444 | (0o111 if path.is_dir() else 0))

    def run(self, *arguments, code=0):
        done = subprocess.run([BIN / "tern-aggregator", *arguments, "--state", self.folder], capture_output=True,
                              text=True, timeout=150, check=False, cwd="/", **self.user)
        assert done.returncode == code, f"{arguments}: exit {done.returncode}: {done.stderr}"
        return done


class Copy:
    """A copy of a state directory that a stranger is let into; its name has what a URI gives a meaning."""

    def __init__(self, state, *names):
        self.folder = tempfile.TemporaryDirectory(prefix="tern-cli-")
        root = pathlib.Path(self.folder.name)
        root.chmod(0o755)
        self.path = root / "a #1 50%20?x=y"
        self.path.mkdir()
        for name in names:
            shutil.copyfile(state.path / name, self.path / name)
        self.stranger = Stranger(self.path)


def rounds_of(stranger):
    return len(json.loads(stranger.run("rounds", "--json").stdout))


def every_reading_verb_works_and_leaves_nothing():
    state = State(rounds=3)
    copy = Copy(state, "tern.db")
    for verb in READING:
        copy.stranger.run(*verb)
    assert rounds_of(copy.stranger) == 3
    copies = copy.path.parent / "copies"
    copies.mkdir()
    copies.chmod(0o777)
    copy.stranger.run("backup", copies / "copy.db")
    assert [path.name for path in copy.path.iterdir()] == ["tern.db"]


def a_backup_is_read():
    state = State(rounds=3)
    state.run("backup", state.path / "copy.db")
    (state.path / "copy.db").rename(state.path / "tern.db")
    copy = Copy(state, "tern.db")
    assert rounds_of(copy.stranger) == 3


def what_is_only_in_the_log_is_read_where_its_index_is_there():
    state = State(rounds=1)
    with sqlite3.connect(state.path / "tern.db") as writer:
        writer.execute("UPDATE clients SET name = 'only in the log' WHERE id = 1")
        writer.commit()
        whole = Copy(state, "tern.db", "tern.db-wal", "tern.db-shm")
        lacking = Copy(state, "tern.db", "tern.db-wal")
    writer.close()
    assert "only in the log" in whole.stranger.run("clients").stdout
    error = lacking.stranger.run("clients", code=FAILED).stderr
    assert "has a log, which cannot be read where no file can be made: copy both" in error, error


def verbs_that_write_say_that_it_can_only_be_read():
    copy = Copy(State(rounds=1), "tern.db")
    for verb in (["enroll-code"], ["revoke", "1"], ["tag", "1", "site=a"], ["prune", "--keep", "1"]):
        error = copy.stranger.run(*verb, code=FAILED).stderr
        assert "can only be read; check its owner and permissions" in error, (verb, error)


main(every_reading_verb_works_and_leaves_nothing, a_backup_is_read,
     what_is_only_in_the_log_is_read_where_its_index_is_there, verbs_that_write_say_that_it_can_only_be_read)
