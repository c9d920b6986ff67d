"""Working only when it is welcome: what `tern-client conditions` shows of a made-up machine, and a
real client that loses a condition while it trains, pauses, and ends with the very same model."""
import ctypes
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from harness import BIN, PATIENCE, SANITIZED, Aggregator, Workspace, check, main

IN_OPEN = 0x20  # of inotify.h


class Machine:
    """A folder with the /proc and /sys of a laptop."""

    def __init__(self, root):
        self.root = root
        self.put("proc/loadavg", "0.10 0.10 0.10 1/99 1")
        self.put("sys/devices/system/cpu/online", "0-1")
        self.put("sys/class/thermal/thermal_zone0/temp", "41000")
        self.put("sys/class/power_supply/BAT0/type", "Battery")
        self.put("sys/class/power_supply/BAT0/capacity", "64")
        self.plug_in()

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def plug_in(self):
        self.put("sys/class/power_supply/BAT0/status", "Charging")

    def pull_the_plug(self):
        self.put("sys/class/power_supply/BAT0/status", "Discharging")

    def wait_for_looks(self, count):
        """Until somebody has opened the battery's status so many times more."""
        libc = ctypes.CDLL(None, use_errno=True)
        watch = libc.inotify_init1(os.O_CLOEXEC)
        check(watch >= 0, os.strerror(ctypes.get_errno()))
        try:
            status = os.fsencode(self.root / "sys/class/power_supply/BAT0/status")
            check(libc.inotify_add_watch(watch, status, IN_OPEN) >= 0,
                  os.strerror(ctypes.get_errno()))
            for look in range(count):
                check(select.select([watch], [], [], PATIENCE)[0], f"only {look} looks")
                os.read(watch, 4096)
        finally:
            os.close(watch)


def options(machine, **settings):
    settings = {"client.root": machine.root, **settings}
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def conditions(machine, when, *arguments, code, **settings):
    done = subprocess.run(
        [BIN / "tern-client", "conditions", *options(machine, **{"client.when": when}, **settings),
         *arguments], capture_output=True, text=True, timeout=PATIENCE)
    check(done.returncode == code,
          f"conditions, {when!r}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def verb_shows_what_it_sees(machine):
    all_of_them = "unmetered, charging, idle, temperature<70, battery>40"
    said = json.loads(conditions(machine, all_of_them, "--json", code=0,
                                 **{"budget.metered": "no"}).stdout)
    check(said["may_work"] is True and "why" not in said, f"said {said}")
    check(said["reported"] == {"metered": False, "power": "mains"},
          f"told {said}")
    found = {entry["condition"]: entry for entry in said["conditions"]}
    check(list(found) == ["unmetered", "charging", "load", "temperature", "battery"], f"{found}")
    check(all(entry["asked"] and entry["met"] for entry in found.values()), f"found {found}")
    check(found["temperature"]["value"] == 41 and found["temperature"]["limit"] == 70
          and found["temperature"]["from"] == f"{machine.root}/sys/class/thermal", f"{found}")
    check(found["battery"]["read"] == "BAT0 is charged to 64 %", f"{found}")


def verb_says_what_forbids(machine):
    machine.put("sys/class/thermal/thermal_zone0/temp", "83000")
    done = conditions(machine, "charging, temperature<70", code=4)
    check("may not work now: temperature<70 is not met: 83.0 degrees Celsius in thermal_zone0"
          in done.stdout, done.stdout)
    done = conditions(machine, "", code=0)  # nothing asked
    check("may work now" in done.stdout and "not asked" in done.stdout, done.stdout)
    machine.put("sys/class/thermal/thermal_zone0/temp", "41000")


def verb_is_honest_about_what_it_cannot_see(machine):
    said = json.loads(conditions(machine, "unmetered", "--json", code=4).stdout)
    check("unmetered is unknown" in said["why"], f"said {said}")
    found = said["conditions"][0]
    check(found["known"] is False and found["met"] is False and "value" not in found, f"{found}")
    conditions(machine, "unmetered", code=0, **{"budget.metered": "no"})
    conditions(machine, "unmetered", code=4, **{"budget.metered": "yes"})


def verb_refuses_what_it_does_not_know(machine):
    done = conditions(machine, "charging, humid", code=2)
    check('client.when: "humid" is no condition; known: unmetered' in done.stderr, done.stderr)
    done = conditions(machine, "", code=2, **{"budget.metered": "maybe"})
    check("budget.metered" in done.stderr and "auto" in done.stderr, done.stderr)
    done = conditions(machine, "", code=2, **{"client.only_on_mains": "yes"})
    check("only_on_mains" in done.stderr, done.stderr)


# --- A client that works


class Federation:
    """One aggregator and one client, for one round of a second or more of training."""

    def __init__(self, workspace, machine):
        workspace.path.mkdir(exist_ok=True)
        self.workspace = workspace
        self.aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-128-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "5m", "rounds": 1},
            "train": {"local_steps": 300 if SANITIZED else 1500, "batch_size": 64, "learning_rate": 0.05},
        }).start()
        self.options = options(machine, **{
            "client.server": self.aggregator.url, "client.ca": self.aggregator.ca,
            "client.state_dir": workspace.path / "client", "client.wait": "0",
            "client.when": "charging", "client.look_again": "1s", "budget.metered": "no",
            "data.source": "digits:train=400,test=50,size=16"})
        self.client(("enroll", self.aggregator.join_code()))

    def client(self, verb, code=0):
        done = subprocess.run([BIN / "tern-client", *verb, *self.options], capture_output=True,
                              text=True, timeout=PATIENCE)
        check(done.returncode == code, f"{verb}: exit {done.returncode}, not {code}: {done.stderr}")
        return done.stdout

    def start(self):
        return self.workspace.start(BIN / "tern-client", "run", *self.options, log="client")

    def log(self):
        return (self.workspace.path / "client.log").read_text()

    def wait_for(self, event):
        deadline = time.monotonic() + PATIENCE
        while f"event={event} " not in self.log():
            check(time.monotonic() < deadline, f"no event {event}: {self.log()}")
            time.sleep(0.005)

    def finish(self, process):
        check(process.wait(timeout=PATIENCE) == 0, f"run exited {process.returncode}")
        self.aggregator.kill()
        return self.log().split("model_hash=")[1].split()[0]


def undisturbed(machine):
    with Workspace() as workspace:
        federation = Federation(workspace, machine)
        model = federation.finish(federation.start())
        check("event=paused" not in federation.log(), federation.log())
        return model


def paused_while_it_trains(machine):
    with Workspace() as workspace:
        federation = Federation(workspace, machine)
        process = federation.start()
        federation.wait_for("task")
        process.send_signal(signal.SIGSTOP)  # until what it saw last is no longer fresh
        machine.pull_the_plug()
        time.sleep(1.1)
        process.send_signal(signal.SIGCONT)
        federation.wait_for("paused")
        check("round=1 sequence=0 look_again_ms=1000 "
              'why="charging is not met: BAT0 is discharging"' in federation.log(),
              federation.log())
        machine.wait_for_looks(3)
        check(federation.log().count("event=paused") == 1, "paused was said more than once")
        check("event=trained" not in federation.log() and process.poll() is None,
              f"the client trained on battery: {federation.log()}")
        machine.plug_in()
        model = federation.finish(process)
        log = federation.log()
        check(log.count("event=resumed") == 1 and log.count("event=task") == 1, log)
        check(int(log.split("paused_ms=")[1].split()[0]) >= 3000, log)
        check("answer=accepted" in log, log)
        return model


def once_does_not_begin(machine):
    with Workspace() as workspace:
        federation = Federation(workspace, machine)
        machine.pull_the_plug()
        said = json.loads(federation.client(("once", "--json"), code=4))
        check(said["ended_by"] == "paused" and "BAT0 is discharging" in said["why"], f"said {said}")
        machine.plug_in()


def test():
    with Workspace() as workspace:
        machine = Machine(workspace.path / "machine")
        verb_shows_what_it_sees(machine)
        verb_says_what_forbids(machine)
        verb_is_honest_about_what_it_cannot_see(machine)
        verb_refuses_what_it_does_not_know(machine)
        once_does_not_begin(machine)
        first = undisturbed(machine)
        second = paused_while_it_trains(machine)
        check(first == second, f"the pause changed the model: {first} and {second}")
        shutil.rmtree(machine.root)


main(test)
