#!/usr/bin/python3
"""The listener takes no request that nginx refuses, and where both take one, both see as many requests.

A proxy that reads a request in one way, and the listener behind it in another, let a stranger put bytes
before another client's request. Each row of request_corpus.py goes to the real nginx and to the listener,
with a probe behind it: a request was understood if the probe was answered. nginx runs as an unprivileged
user on a socket of the test's own."""

import os
import pwd
import re
import socket
import sys
import time

import harness
import request_corpus
from harness import check
from proxies import CONF

PROBE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

# Where the listener refuses what nginx (1.22 to 1.26) takes. Rows of a rule that is not here may only
# be refused by both.
STRICTER = {
    "transfer-encoding": "clients send Content-Length only, so there is no second way to end a body",
    "line-end": "bare CR and LF, which nginx takes for CRLF or skips",
    "control": "in values of headers; nginx refuses NUL only",
    "name": "no token of RFC 9110; nginx ignores the header, or the line",
    "host": "other characters than of names and addresses; no Host in HTTP/1.0",
    "request-line": "absolute form, fragments, escapes and other bytes than of ASCII in the target, unknown methods, more than one "
                    "blank between two parts, what stands behind the version",
}

SITE = """    lingering_close off;
    server {{
        listen unix:{folder}/nginx.sock;
        location / {{ return 404; }}
        location = /healthz {{ return 200 "ok\\n"; }}
    }}"""


def connect(path):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(harness.PATIENCE)
    connection.connect(str(path))
    return connection


def wait_for(path, process):
    deadline = time.monotonic() + harness.PATIENCE
    while True:
        try:
            connect(path).close()
            return
        except OSError:
            check(process.poll() is None and time.monotonic() < deadline, f"nothing listens on {path}")
            time.sleep(0.01)


def start_nginx(workspace):
    """As nobody where the test is root's. Returns the path of its socket."""
    nginx, _ = harness.neighbour("nginx", "usr/sbin/nginx")
    folder = workspace.path / "nginx"
    folder.mkdir()
    (folder / "nginx.conf").write_text(CONF.format(folder=folder, access="off", site=SITE.format(folder=folder)))
    command = [nginx, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log"]
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        workspace.path.chmod(0o711)
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        command = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", *command]
    wait_for(folder / "nginx.sock", workspace.start(*command, log="nginx"))
    return folder / "nginx.sock"


def receive(connection):
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def replies(data):
    """The replies, as (status, body). What is no reply of HTTP/1 ends them: HTTP/0.9 has no head."""
    found = []
    while match := re.match(rb"HTTP/1\.[01] (\d+)[^\r]*\r\n(.*?)\r\n\r\n", data, re.DOTALL):
        length = re.search(rb"^content-length: *(\d+)", match[2], re.IGNORECASE | re.MULTILINE)
        end = match.end() + (int(length[1]) if length else 0)
        if not match[1].startswith(b"1"):
            found.append((int(match[1]), data[match.end():end]))
        data = data[end:]
    return found


def requests_seen(path, request):
    """How many requests the server took these bytes for; None when it did not go on behind them."""
    with connect(path) as connection:
        try:
            connection.sendall(request + PROBE)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused already
        got = replies(receive(connection))
    understood = bool(got) and got[-1] == (200, b"ok\n")
    return len(got) - 1 if understood else None


def judge(row, nginx, tern):
    """What is wrong with the two verdicts, or None; and whether the listener was the stricter."""
    rule, name, request = row
    theirs, ours = requests_seen(nginx, request), requests_seen(tern, request)
    if rule == "plain":
        return None if (theirs, ours) == (1, 1) else f"{name}: nginx {theirs}, tern {ours}, not 1", False
    if ours is None:
        strict = theirs is not None
        return f"{name}: nginx takes it" if strict and rule not in STRICTER else None, strict
    return None if ours == theirs else f"{name}: nginx {theirs}, tern {ours}", False


def test():
    check(len(request_corpus.ROWS) >= 200, "the corpus has less than 200 requests")
    with harness.Workspace() as workspace:
        nginx = start_nginx(workspace)
        aggregator = harness.Aggregator(workspace, {}).start()
        wrong, needed = [], set()
        for row in request_corpus.ROWS:
            fault, strict = judge(row, nginx, workspace.path / "admin.sock")
            wrong += [fault] if fault else []
            needed |= {row[0]} if strict else set()
        aggregator.kill()
        check(not wrong, "\n".join(wrong))
        print(f"{len(request_corpus.ROWS)} requests; stricter than nginx: {sorted(needed)}")


if __name__ == "__main__":
    sys.exit(harness.main(test))
