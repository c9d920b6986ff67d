"""Starts the proxies that configs/proxies has examples for, the real ones, over those examples with other ports and
files."""

import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import sys
import time

import harness
from harness import BIN, PATIENCE, check
from ports import port_to_keep  # noqa: F401

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "lab"))
from failover.front import CONF  # noqa: E402

EXAMPLES = SOURCE / "configs/proxies"


def example(name, **replaced):
    """The example with other ports and files, each of which it must have."""
    text = (EXAMPLES / name).read_text()
    for shown, instead in replaced.values():
        check(shown in text, f"{name} has no {shown!r}")
        text = text.replace(shown, str(instead))
    return text


def as_nobody(workspace, folder, command):
    """A command as an unprivileged user, where the test is root's."""
    if os.geteuid() != 0:
        return command
    nobody = pwd.getpwnam("nobody")
    workspace.path.chmod(0o711)
    for path in (folder, *folder.iterdir()):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", *command]


def program_of(package, folder, called=None):
    """An unpacked one is copied into the folder: its own may lie below root's home, where nobody else may look."""
    name = f"usr/sbin/{called or package}"
    program, root = harness.neighbour(package, name)
    if root == pathlib.Path("/"):
        return program, ""
    if not (folder / "usr").exists():
        shutil.copytree(root / "usr", folder / "usr", symlinks=True, ignore=shutil.ignore_patterns("share"))
    return folder / name, ":".join(str(path) for path in sorted(folder.glob("usr/lib/*-linux-gnu*")))


def start_nginx(workspace, aggregator, port, name="nginx.conf", **more):
    """Over the example of that name, with what else is to be replaced there."""
    folder = workspace.path / "nginx"
    folder.mkdir(exist_ok=True)
    program, _ = program_of("nginx", folder)
    for file in ("server.crt", "server.key", "ca.crt"):
        (folder / file).write_bytes((workspace.path / file).read_bytes())
    site = example(name, v4=("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
                   v6=("    listen [::]:443 ssl;\n", ""), called=("tern.example;", "localhost;"),
                   upstream=("127.0.0.1:8443", f"127.0.0.1:{aggregator.port}"),
                   certificate=("/etc/ssl/tern.example.crt", folder / "server.crt"),
                   key=("/etc/ssl/tern.example.key", folder / "server.key"),
                   ca=("/etc/ssl/tern-aggregator-ca.crt", folder / "ca.crt"), **more)
    (folder / "nginx.conf").write_text(CONF.format(folder=folder, access=folder / "access.log", site=site))
    return workspace.start(*as_nobody(workspace, folder, [program, "-p", folder, "-c", folder / "nginx.conf", "-e",
                                                          folder / "error.log"]), log="nginx")


def wait_for(process, port):
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            check(process.poll() is None and time.monotonic() < deadline, "the proxy does not listen")
            time.sleep(0.01)


def run_client(workspace, aggregator, port, verb, *arguments):
    settings = [f"client.server=https://127.0.0.1:{port}", f"client.ca={aggregator.ca}",
                f"client.state_dir={workspace.path}/client", "client.wait=0", "client.retry_min=100ms",
                "client.retry_max=1s", "data.source=digits:train=200,test=50,size=16"]
    done = subprocess.run([BIN / "tern-client", verb, *arguments, *(part for one in settings for part in ("--set", one))],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    check(done.returncode == 0, f"{verb} exited {done.returncode}: {done.stderr}")
    return done.stderr
