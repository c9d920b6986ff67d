"""A copy of this machine's file system to install packages in, that nobody else sees.

An overlay over /, with its changes in memory, in a mount, process and network namespace of its own:
`enter()` starts a script there again, and when that ends, everything is gone. Inside, `run` works in
the copy. systemd does not run there; `systemctl` notes what it is told (and enables), and `Service` starts a unit
as its file says.
"""

import configparser
import os
import pathlib
import shlex
import subprocess
import time

ROOT = pathlib.Path("/mnt")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive"}

FAKE_SYSTEMCTL = """#!/bin/sh
echo "$*" >>/run/systemctl.log
case " $* " in
*' is-enabled '*) exit 1 ;;
*' list-units '*'tern-aggregator@*'*) echo 'tern-aggregator@a.service loaded active running Tern aggregator a' ;;
*' enable '*) exec /usr/bin/systemctl.real "$@" ;;
esac
"""


class Failure(Exception):
    """The behaviour under test is wrong."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def enter(script, *arguments):
    """Runs a Python script in namespaces of its own; what it starts dies with it."""
    return subprocess.run(["unshare", "--mount", "--propagation", "unchanged", "--pid", "--net",
                           "--fork", "--kill-child", "/usr/bin/python3", script,
                           *map(str, arguments)],
                          timeout=580, check=False).returncode


def keep_mounts_here():
    """No mount of this namespace shows in another one. That is said at a mount point, which / is not in
    every chroot: nsenter goes to the root of the namespace."""
    subprocess.run(["nsenter", "--mount=/proc/self/ns/mnt", "mount", "--make-rprivate", "/"],
                   check=True)


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def make_root():
    """Mounts the copy of / on ROOT, with empty /tmp and /run."""
    keep_mounts_here()
    mount("-t", "tmpfs", "tmpfs", ROOT)
    for name in ("upper", "work"):
        (ROOT / name).mkdir()
    mount("-t", "overlay", "overlay", "-o",
          f"lowerdir=/,upperdir={ROOT}/upper,workdir={ROOT}/work", ROOT)
    mount("-t", "proc", "proc", ROOT / "proc")
    mount("--rbind", "/dev", ROOT / "dev")
    for name in ("tmp", "run"):
        mount("-t", "tmpfs", "tmpfs", ROOT / name)
    # Container images leave manuals and documents out.
    for settings in inside("/etc/dpkg/dpkg.cfg.d").glob("*"):
        settings.unlink()
    # dpkg need not index the manual pages of the whole machine after each step.
    inside("/var/lib/man-db/auto-update").unlink(missing_ok=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def inside(path):
    return ROOT / str(path).lstrip("/")


def run(*command, ok=(0,), feed=None, timeout=120):
    """Runs a program in the copy to its end; returns its standard output."""
    done = subprocess.run(["chroot", ROOT, *map(str, command)], input=feed, text=True,
                          env=ENVIRONMENT, capture_output=True, timeout=timeout, check=False)
    check(done.returncode in ok, f"{shlex.join(map(str, command))} ended with {done.returncode}:\n"
                                 f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def fake_systemd():
    """From here on the maintainer scripts find systemd running, and what they say to it is noted."""
    systemctl = inside("/usr/bin/systemctl")
    systemctl.rename(f"{systemctl}.real")
    systemctl.write_text(FAKE_SYSTEMCTL)
    systemctl.chmod(0o755)
    inside("/run/systemd/system").mkdir(parents=True)
    inside("/usr/sbin/policy-rc.d").unlink(missing_ok=True)  # containers forbid services by it


def real_systemctl():
    return "systemctl.real" if inside("/usr/bin/systemctl.real").exists() else "systemctl"


def told_systemd():
    """What systemctl was told since the last call."""
    log = inside("/run/systemctl.log")
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return lines


class Service:
    """A unit, started as systemd would where that matters to the program: its user, its command
    line, no privileges, and nothing writable but its state directory and /tmp."""

    SANDBOX = """
state=$1; shift
mount --bind "$state" "$state"
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
exec "$@"
"""

    def __init__(self, unit):
        # Keys may stand twice (SystemCallFilter); none of those matters here.
        parser = configparser.RawConfigParser(strict=False, delimiters="=")
        parser.optionxform = str
        parser.read(inside(f"/lib/systemd/system/{unit}"))
        self.settings = parser["Service"]
        self.unit = parser["Unit"]
        self.log = pathlib.Path(f"/tmp/{unit}.log")

    def may_start(self):
        folder = self.unit.get("ConditionDirectoryNotEmpty")
        if folder is None:
            return inside(self.unit["ConditionPathExists"]).exists()
        return inside(folder).is_dir() and any(inside(folder).iterdir())

    def command(self):
        settings = self.settings
        return ["chroot", str(ROOT), "unshare", "--mount", "sh", "-euc", self.SANDBOX, "sh",
                f"/var/lib/{settings['StateDirectory']}",
                "setpriv", "--reuid", settings["User"], "--regid", settings["Group"],
                "--init-groups", "--no-new-privs", "--bounding-set=-all",
                *shlex.split(settings["ExecStart"])]

    def start(self):
        check(self.may_start(), "what its unit waits for is not there")
        with open(inside(self.log), "ab") as sink:
            return subprocess.Popen(self.command(), stdout=sink, stderr=sink, env=ENVIRONMENT,
                                    stdin=subprocess.DEVNULL, umask=int(self.settings["UMask"], 8))

    def stop(self, process):
        process.terminate()
        code = process.wait(timeout=60)
        good = [0, *map(int, self.settings.get("SuccessExitStatus", "").split())]
        check(code in good, f"a stopped service ended with {code}:\n{self.text()}")

    def text(self):
        return inside(self.log).read_text(errors="replace")[-3000:]


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, f"waited in vain for {what}")
        time.sleep(0.05)


def owner(path):
    status = os.lstat(inside(path))
    return status.st_uid, status.st_gid, status.st_mode & 0o7777
