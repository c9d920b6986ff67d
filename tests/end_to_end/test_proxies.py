#!/usr/bin/python3
"""A federation through the proxies that configs/proxies has examples for, the real ones: rounds, and a long update
that goes on where a cut connection stopped it."""

import os
import pathlib
import pwd
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time

import harness
from cutting_proxy import PIECE, CuttingProxy
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "configs/proxies"
UPDATE = 68_000 * 4  # bytes, a little less than it has

# What nginx has around its sites.
NGINX_CONF = """daemon off;
master_process off;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ }}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{site}
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


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


def program_of(package, folder):
    """An unpacked one is copied into the folder: its own may lie below root's home, where nobody else may look."""
    name = f"usr/sbin/{package}"
    program, root = harness.neighbour(package, name)
    if root == pathlib.Path("/"):
        return program, ""
    shutil.copytree(root / "usr", folder / "usr", symlinks=True, ignore=shutil.ignore_patterns("share"))
    return folder / name, ":".join(str(path) for path in sorted(folder.glob("usr/lib/*-linux-gnu*")))


def start_nginx(workspace, aggregator, port):
    folder = workspace.path / "nginx"
    folder.mkdir()
    program, _ = program_of("nginx", folder)
    for name in ("server.crt", "server.key", "ca.crt"):
        (folder / name).write_bytes((workspace.path / name).read_bytes())
    site = example("nginx.conf", v4=("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
                   v6=("    listen [::]:443 ssl;\n", ""), called=("tern.example;", "localhost;"),
                   upstream=("127.0.0.1:8443", f"127.0.0.1:{aggregator.port}"),
                   certificate=("/etc/ssl/tern.example.crt", folder / "server.crt"),
                   key=("/etc/ssl/tern.example.key", folder / "server.key"),
                   ca=("/etc/ssl/tern-aggregator-ca.crt", folder / "ca.crt"))
    (folder / "nginx.conf").write_text(NGINX_CONF.format(folder=folder, site=site))
    return workspace.start(*as_nobody(workspace, folder, [program, "-p", folder, "-c", folder / "nginx.conf", "-e",
                                                          folder / "error.log"]), log="nginx")


def start_haproxy(workspace, aggregator, port):
    folder = workspace.path / "haproxy"
    folder.mkdir()
    program, libraries = program_of("haproxy", folder)
    (folder / "ca.crt").write_bytes((workspace.path / "ca.crt").read_bytes())
    (folder / "haproxy.cfg").write_text(
        example("haproxy.cfg", bind=("bind :443", f"bind 127.0.0.1:{port}"),
                user=("    user haproxy\n    group haproxy\n", ""), files=("maxconn 20000", "maxconn 100"),
                server=("127.0.0.1:8443", f"127.0.0.1:{aggregator.port}"), log=("/dev/log", "127.0.0.1:9"),
                ca=("/etc/ssl/tern-aggregator-ca.crt", folder / "ca.crt")))
    command = ["env", f"LD_LIBRARY_PATH={libraries}", program, "-db", "-f", folder / "haproxy.cfg"]
    return workspace.start(*as_nobody(workspace, folder, command), log="haproxy")


def wait_for(process, port):
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            check(process.poll() is None and time.monotonic() < deadline, "the proxy does not listen")
            time.sleep(0.01)


def client(workspace, aggregator, port, verb, *arguments):
    settings = [f"client.server=https://127.0.0.1:{port}", f"client.ca={aggregator.ca}",
                f"client.state_dir={workspace.path}/client", "client.wait=0", "client.retry_min=100ms",
                "client.retry_max=1s", "data.source=digits:train=200,test=50,size=16"]
    done = subprocess.run([BIN / "tern-client", verb, *arguments, *(part for one in settings for part in ("--set", one))],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    check(done.returncode == 0, f"{verb} exited {done.returncode}: {done.stderr}")
    return done.stderr


def asks_whether_it_is_ready(workspace):
    """HAProxy's check of health comes through."""
    deadline = time.monotonic() + PATIENCE
    log = workspace.path / "aggregator.log"
    while not re.search(r"event=request .* status=200 .* path=/readyz", log.read_text()):
        check(time.monotonic() < deadline, "the proxy does not ask /readyz")
        time.sleep(0.02)


def visit_from(address, port, ca):
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0)) as raw, \
            context.wrap_socket(raw, server_hostname="localhost") as tls:
        tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(b" 200 " in tls.recv(65536), "the visit is refused")


def knows_its_clients(workspace, aggregator, port):
    """By the header of HAProxy; nobody else comes in on the aggregator's port without one."""
    log = workspace.path / "aggregator.log"
    visit_from("127.0.0.66", port, aggregator.ca)
    check(re.search(r"event=request .* peer=127\.0\.0\.66 .* path=/healthz", log.read_text()),
          "the log does not know the client's address")
    try:
        visit_from("127.0.0.1", aggregator.port, aggregator.ca)
    except OSError:
        pass
    else:
        check(False, "a connection without a header is served")
    check(re.search(r'event=proxy-header proxy=127\.0\.0\.1 why="there is none"', log.read_text()),
          "the log does not say why")


def rounds_through(start):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-256-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "10m", "rounds": 2},
            "train": {"local_steps": 1, "batch_size": 8},
            "codec": {"codec": "float32"},
            "log": {"requests": "all"},
            "server": {"proxy_from": "127.0.0.1" if start is start_haproxy else ""},
        }).start()
        port = free_port()
        wait_for(start(workspace, aggregator, port), port)
        cutting = CuttingProxy(port)
        client(workspace, aggregator, port, "enroll", aggregator.join_code())
        check("answer=accepted" in client(workspace, aggregator, cutting.port, "once"), "the first round was not done")
        check(cutting.cuts >= 2, f"{cutting.cuts} cuts")
        # Each cut wastes what was under way; an update that began anew would never have come to its end.
        check(UPDATE < cutting.passed < UPDATE + (cutting.cuts + 1) * PIECE, f"{cutting.passed} bytes went up")
        check("answer=accepted" in client(workspace, aggregator, port, "once"), "the second round was not done")
        check(aggregator.json("status")["rounds_committed"] == 2, "rounds are missing")
        if start is start_haproxy:
            asks_whether_it_is_ready(workspace)
            knows_its_clients(workspace, aggregator, port)


def test():
    rounds_through(start_nginx)
    rounds_through(start_haproxy)


if __name__ == "__main__":
    sys.exit(main(test))
