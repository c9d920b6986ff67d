"""Each kind of call to files that are not the database's fails at its k-th, for every k: when a service starts, when
it takes a long update into a file and sends a long download from one, and when operators' verbs write theirs. Or
the process dies there. The service goes on or says what was wrong, a file is whole or not there, and the next try
succeeds.

./tern test tries some ks of each kind, at even distances; with its long tests every one, until a run needs no fault.
"""

import contextlib
import shutil
import signal
import subprocess

from faults import ALL_FAULTS, DATABASE, KILL, OTHERS, Control, fail_at_every_call, wait_until
from harness import BIN, HELPERS, PATIENCE, Aggregator, Failure, Workspace, check, main

LARGE = "mlp:256-1024-10"  # 1,093,672 bytes as float32: updates and downloads are in files
TOKEN_TEXT = 33  # characters of an admin token, with the end of its line


class Service:
    """And one client of it."""

    def __init__(self, workspace, model):
        self.path = workspace.path
        self.control = Control(self.path / "faults")
        self.aggregator = Aggregator(workspace, {
            "federation": {"model": model, "seed": 5},
            "round": {"cohort": 1, "min_clients": 1, "quorum": 1, "deadline": "1h", "come_back_min": "20ms",
                      "come_back_max": "100ms"},
            "train": {"local_steps": 1},
            "codec": {"codec": "float32", "codec_down": "float32"},
            "downloads": {"plan": "trunk"},
            "limits": {"requests_per_minute": 0, "memory": "32Mi", "history_bytes": 1},
        }, prefix=("env", f"LD_PRELOAD={HELPERS / 'fault_shim.so'}", f"TERN_FAULTS={self.control.path}"))
        self.updates = 0

    def start_client(self, *words):
        settings = (f"client.server=https://127.0.0.1:{self.aggregator.port}", f"client.ca={self.aggregator.ca}",
                    f"client.state_dir={self.path}/client", "client.wait=1s", "client.retry_min=100ms",
                    "client.retry_max=20s", "data.source=digits:train=40,test=10,size=16")
        return subprocess.Popen([BIN / "tern-client", *words, *(part for one in settings for part in ("--set", one))],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def update(self, meanwhile=lambda client: False):
        """Takes part in one round. meanwhile: called once the client runs; True: the service was away for as long as it took to
        start, and a client that gave up meanwhile sends its update now."""
        client = self.start_client("once")
        was_away = meanwhile(client)
        said = client.communicate(timeout=PATIENCE)[1]
        if was_away and client.returncode == 1:
            client = self.start_client("once")
            said += client.communicate(timeout=PATIENCE)[1]
        check(client.returncode == 0 and said.count(" answer=") == 1,
              f"no update was accepted: {client.returncode} {said[-3000:]}")
        self.updates += 1

    def verb(self, *words, ok=(0,)):
        """Through the shim; returns what it says on stderr."""
        done = subprocess.run([str(part) for part in (*self.aggregator.prefix, BIN / "tern-aggregator", *words)],
                              capture_output=True, text=True, timeout=PATIENCE)
        check(done.returncode in ok, f"{words} exited {done.returncode}: {done.stderr}")
        return done.returncode, done.stderr


def is_kill(fault):
    return ALL_FAULTS[fault][1] == KILL


def exits(fault):
    return (0, -signal.SIGKILL if is_kill(fault) else 1)


def try_all(control, what, scenario, fail, files=OTHERS):
    """fail(fault, k): whether the k-th call of the scenario failed. scenario: the same without a fault."""
    calls = control.seen_during(scenario, files)
    tried = {fault: fail_at_every_call(lambda k: fail(fault, k), calls[call], 1)
             for fault, (call, _, _) in ALL_FAULTS.items()}
    print(f"{what}: " + ", ".join(f"{fault} {len(ks)}" for fault, ks in tried.items() if ks), flush=True)
    check(any(tried.values()), f"{what}: no call failed")


# --- A service that serves

def start_again_after_death(aggregator, client):
    """The client goes on with its update once the service is there again. Returns whether the service was away."""
    wait_until(lambda: aggregator.process.poll() is not None or client.poll() is not None, PATIENCE)
    dead = aggregator.process.poll() is not None
    if dead:
        aggregator.start()
    return dead


def fail_while_updates_come(service):
    control, aggregator = service.control, service.aggregator

    def fail(fault, k):
        process = aggregator.process
        control.arm(fault, k, k, OTHERS)
        service.update(lambda client: is_kill(fault) and start_again_after_death(aggregator, client))
        control.disarm()
        if is_kill(fault) and control.failed > 0 and aggregator.process is process:  # it died after the client had ended
            process.wait(timeout=PATIENCE)
            aggregator.start()
        check(aggregator.process.poll() is None, f"the service ended: {fault} at call {k} of an update")
        return control.failed > 0

    try_all(control, "a long update and download", service.update, fail)


def expect_each_update_once(service):
    status = service.aggregator.json("status")
    check(status["updates"] == status["updates_applied"] == service.updates,
          f"{service.updates} updates were sent, {status['updates']} came, {status['updates_applied']} are applied")
    left = list((service.aggregator.state / "uploads").iterdir())
    check(not left, f"files of updates are left: {left}")


# --- A service that starts

def start_without_token(service):
    (service.aggregator.state / "admin.token").unlink(missing_ok=True)
    service.aggregator.start()


def fail_while_it_starts(service):
    """It makes the admin token, among others."""
    control, aggregator, log = service.control, service.aggregator, service.path / "aggregator.log"

    def fail(fault, k):
        aggregator.kill(signal.SIGKILL)
        before = len(log.read_text())
        control.arm(fault, k, k, OTHERS)
        with contextlib.suppress(Failure):
            start_without_token(service)
        control.disarm()
        if is_kill(fault) and control.failed > 0:  # also if it died after it was ready
            aggregator.process.wait(timeout=PATIENCE)
        code, said = aggregator.process.poll(), log.read_text()[before:]
        token = aggregator.state / "admin.token"
        check(not token.exists() or len(token.read_text()) == TOKEN_TEXT, f"half a token: {fault} at call {k}")
        if code is not None:
            check(code in (1, 2, *exits(fault)), f"{fault} at call {k} of a start ended it with {code}")
            check(is_kill(fault) or "tern-aggregator: " in said, f"{fault} at call {k} of a start: it says {said}")
            aggregator.start()
        return control.failed > 0

    def start_again():
        aggregator.kill(signal.SIGKILL)
        start_without_token(service)

    try_all(control, "a start", start_again, fail)


# --- Verbs that write a file

def fail_while_it_is_written(service, what, words, target, files):
    """words make the file `target`. It is whole or not there, and what was there before stays where it does not come to
    be; an error names it or the database."""
    control, named = service.control, "tern.db" if files == DATABASE else target.name
    before = b"" if files == DATABASE else b"what was there before"  # a backup takes nothing's place

    def make(ok=(0,)):
        for path in target.parent.glob(f"{target.name}*"):
            path.unlink()
        if before:
            target.write_bytes(before)
        return service.verb(*words, ok=ok)

    def fail(fault, k):
        control.arm(fault, k, k, files)
        code, said = make(exits(fault))
        control.disarm()
        found = target.read_bytes() if target.exists() else b""
        check(found == whole if code == 0 else found in (whole, before), f"{fault} at call {k} of {what}: half a file")
        check(code != 1 or named in said, f"{fault} at call {k} of {what}: it says {said}")
        beside = [path.name for path in target.parent.glob(f"{target.name}*") if path != target]
        check(is_kill(fault) or fault == "delete-eio" or not beside, f"{fault} at call {k} of {what} leaves {beside}: {said}")
        return control.failed > 0

    make()
    whole = target.read_bytes()
    try_all(control, what, make, fail, files)


def fail_while_a_backup_is_restored(service, backup):
    """The database is there and whole, whatever failed, and the next try succeeds."""
    control, scratch = service.control, service.path / "scratch"

    def restore(ok=(0,)):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(service.aggregator.state, scratch)
        return service.verb("restore", backup, "--state", scratch, ok=ok)

    def fail(fault, k):
        control.arm(fault, k, k)
        code, said = restore(exits(fault))
        control.disarm()
        check(code != 1 or "tern-aggregator: " in said, f"{fault} at call {k} of restore: it says {said}")
        service.verb("verify", "--state", scratch)
        service.verb("restore", backup, "--state", scratch)
        return control.failed > 0

    try_all(control, "restore", restore, fail, DATABASE)


def fail_while_operators_work():
    with Workspace() as workspace:
        service = Service(workspace, "softmax:8-2")
        state = ("--state", service.aggregator.state)
        exported, backup = service.path / "model.safetensors", service.path / "tern.db.backup"
        fail_while_it_is_written(service, "export", ("export", exported, *state), exported, OTHERS)
        fail_while_it_is_written(service, "backup", ("backup", backup, *state), backup, DATABASE)
        for path in service.path.glob("tern.db.backup*"):
            path.unlink()
        service.verb("backup", backup, *state)
        fail_while_a_backup_is_restored(service, backup)


def test():
    fail_while_operators_work()
    with Workspace() as workspace:
        service = Service(workspace, LARGE)
        service.aggregator.start()
        enrolling = service.start_client("enroll", service.aggregator.join_code())
        said = enrolling.communicate(timeout=PATIENCE)[1]
        check(enrolling.returncode == 0, f"it is not enrolled: {said}")
        service.update()
        fail_while_it_starts(service)
        fail_while_updates_come(service)
        service.aggregator.kill(signal.SIGTERM)
        expect_each_update_once(service)


main(test)
