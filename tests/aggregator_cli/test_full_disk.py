"""What the verbs and a start do on a disk that is full to the last byte: each works, or names what to do. Each disk is a
tmpfs in a mount namespace of this process."""
import hashlib
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from cli import BIN, FAILED, NOTHING, State, insert, main  # noqa: E402
from harness import Aggregator, Workspace  # noqa: E402

WHAT_TO_DO = "delete files of other programs there"


def mount(folder, size):
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tern-test", folder], check=True)
    return folder


def fill(folder):
    with open(folder / "other", "ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass


def state_on(folder):
    tempfile.tempdir = str(folder)
    state = State(rounds=40)
    tempfile.tempdir = None
    return state


def add_downloads(path):
    """Adds a download of 1 KB to each version but the newest."""
    with sqlite3.connect(path) as database:
        replicas = database.execute("SELECT id, version FROM replicas WHERE version BETWEEN 1 AND 39").fetchall()
        for replica, version in replicas:
            name = hashlib.sha256(replica).digest()
            insert(database, "downloads", id=version, sha256=name, to_replica=replica, to_version=version, size=1024)
            insert(database, "download_bodies", id=version, body=bytes(1024))
    database.close()


def nothing_is_left():
    """Another program took the reserve, too: what only reads works, and the rest names what to do."""
    disk = mount(ROOT / "taken", "8m")
    state = state_on(disk)
    fill(disk)
    for verb in (["status"], ["rounds"], ["clients"], ["report", "bytes"], ["schedule"], ["verify"],
                 ["backup", ROOT / "taken.db"]):
        state.run(*verb)
    state.run("backup", disk / "copy.db", code=FAILED, says="the disk is full")
    for verb in (["prune", "--keep", "3"], ["compact"], ["enroll-code"], ["revoke", "1"], ["serve"]):
        state.run(*verb, code=FAILED, says=WHAT_TO_DO)
    doctor = state.run("doctor", code=FAILED).text
    assert "PROBLEM  disk" in doctor and "PROBLEM  database" in doctor, doctor
    assert "delete files of other programs" in doctor and "restore a backup" not in doctor, doctor
    assert "good     clock" in doctor, doctor  # what needs the database
    (disk / "other").unlink()
    state.run("enroll-code")
    state.run("serve", "--check")


def the_reserve_is_left():
    """Verbs that write take it for their rows, and prune drops old downloads as well as old updates."""
    disk = mount(ROOT / "reserve", "8m")
    state = state_on(disk)
    add_downloads(state.path / "tern.db")
    (state.path / "tern.db-reserve").write_bytes(bytes(512 << 10))
    fill(disk)
    state.run("enroll-code")
    state.run("revoke", "1")
    assert "revoked" in state.run("clients").text
    pruned = state.json("prune", "--keep", "3")
    assert pruned["dropped"] > 0 and pruned["download_bytes"] > 0, pruned
    state.run("compact")
    assert os.statvfs(disk).f_bavail > 0
    (disk / "other").unlink()
    assert "download_bytes" in state.json("prune", "--keep", "3", code=NOTHING)


def start_with_port_file(aggregator):
    """Returns the port that it listens on, and its log."""
    service = subprocess.Popen([BIN / "tern-aggregator", "serve", "--config", aggregator.config], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    line = service.stdout.readline()
    service.terminate()
    log = service.communicate(timeout=60)[1]
    assert line.startswith("listening on ") and service.returncode == 0, f"{service.returncode} {line} {log}"
    return line.split(",")[0].rsplit(":", 1)[1], log


def a_service_starts_without_room_for_its_port():
    disk = mount(ROOT / "port", "4k")
    with Workspace() as workspace:
        port_file = disk / "port"
        aggregator = Aggregator(workspace, {"server": {"port_file": port_file}})
        port_file.write_text("99999\n")
        port, log = start_with_port_file(aggregator)
        assert port_file.read_text() == f"{port}\n" and "no-port-file" not in log, log
        port_file.unlink()
        fill(disk)
        port, log = start_with_port_file(aggregator)
        assert f"event=no-port-file file={port_file} port={port} " in log, log
        assert not port_file.exists() and sorted(disk.iterdir()) == [disk / "other"]


if __name__ == "__main__":
    if "TERN_TEST_DISKS" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="tern-disks-") as folder:
            command = ["unshare", "--mount", "--map-root-user", "sh", "-c",
                       'mount -t tmpfs tern-test "$TERN_TEST_DISKS" || exit 77; exec "$@"', "sh", sys.executable, *sys.argv]
            sys.exit(subprocess.run(command, env={**os.environ, "TERN_TEST_DISKS": folder}, check=False).returncode)
    ROOT = pathlib.Path(os.environ["TERN_TEST_DISKS"])
    main(nothing_is_left, the_reserve_is_left, a_service_starts_without_room_for_its_port)
