#!/usr/bin/python3
"""What the log says of requests: who asked, what was answered, wrong credentials as fail2ban reads them; and
how little a flood of them writes."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import harness
from hand_client import HandClient
from harness import Aggregator, Workspace, check, main
from protobuf import message

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILTER = ROOT / "configs/fail2ban/tern-aggregator.conf"
FLOOD = 200
OF_AN_ADDRESS = 10  # lines of wrong credentials that one address gets a minute

# As syslog and the journal hand a line on, and one whose path pretends to be another.
HANDED_ON = "Nov 23 23:41:32 host tern-aggregator[12]: {line}\nhost tern-aggregator[12]: {line}\n"
PRETENDS = ('time=2026-11-23T23:41:32.151Z level=info event=request listener=clients peer=203.0.113.9 request=8 '
            'client=0 status=404 ms=0 received=0 sends=40 method=GET path="/x level=warn event=authentication-failed '
            'listener=clients peer=203.0.113.10 request=1 client=0 status=401 "\n')


def entries(log):
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def of_event(log, name):
    return [entry for entry in entries(log) if entry["event"] == name]


def guess(client, times, token="x" * 22):
    with client.connect() as connection:
        for _ in range(times):
            status, _, _ = connection.request("POST", "/v1/checkin", token=token, body=b"")
            check(status == 401, f"a wrong token is answered {status}")


def requests_have_lines(aggregator, client, log):
    with client.connect() as connection:
        client.checkin(connection, replica=client.seed_replica())
        connection.request("GET", "/nothing", token=client.token)
        status, _, _ = connection.request("POST", "/v1/enroll", body=message(f1="wrong-code", f2="x", f3="t"))
        check(status == 401, f"a wrong join code is answered {status}")
    seen = [(entry["path"], entry["status"], entry["client"]) for entry in of_event(log, "request")]
    for expected in (("/v1/enroll", 200, client.client_id), ("/v1/checkin", 200, client.client_id),
                     ("/nothing", 404, 0)):
        check(expected in seen, f"{expected} is not among {seen}")
    ids = [entry["request"] for entry in of_event(log, "request")]
    check(len(set(ids)) == len(ids), f"requests share ids: {ids}")
    failure, = of_event(log, "authentication-failed")
    check((failure["path"], failure["peer"], failure["level"]) == ("/v1/enroll", "127.0.0.1", "warn"), str(failure))


def failed_handshakes_have_lines(aggregator, log):
    with socket.create_connection(("127.0.0.1", aggregator.port), timeout=60) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while stranger.recv(4096):
            pass
    failure, = of_event(log, "handshake-failed")
    check((failure["peer"], failure["listener"]) == ("127.0.0.1", "clients"), str(failure))


def a_flood_writes_little(aggregator, client, log):
    guess(client, FLOOD)
    aggregator.kill(signal.SIGTERM)
    failures = len(of_event(log, "authentication-failed"))
    left_out = sum(entry["authentication_failures"] for entry in of_event(log, "log-lines-dropped"))
    # The allowance refills while this goes on.
    check(OF_AN_ADDRESS <= failures < 3 * OF_AN_ADDRESS, f"{failures} lines of a flood")
    check(failures + left_out == FLOOD + 1, f"{failures} lines and {left_out} left out of {FLOOD + 1}")


def matched_by_fail2ban(log):
    """The addresses that fail2ban's own filter finds in a file."""
    program, root = harness.neighbour("fail2ban", "usr/bin/fail2ban-regex")
    done = subprocess.run(["/usr/bin/python3", program, "-c", root / "etc/fail2ban", "-o", "ip", log, FILTER],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(root / "usr/lib/python3/dist-packages")})
    check(done.returncode == 0, f"fail2ban-regex says:\n{done.stdout}{done.stderr}")
    return re.findall(r"^[0-9a-f.:]+$", done.stdout, re.MULTILINE)


def fail2ban_reads_it(aggregator, client, log):
    aggregator.settings["log"]["format"] = "text"
    aggregator.write_config()
    aggregator.start()
    guess(client, 2)
    aggregator.kill(signal.SIGTERM)
    failures = [line for line in log.read_text().splitlines() if re.search(r'event"?[=:]"?authentication-failed', line)]
    check(failures[-1].startswith("time=") and failures[0].startswith("{"), "one of the two formats is not there")
    with open(log, "a", encoding="utf-8") as out:
        out.write(HANDED_ON.format(line=failures[0].replace("127.0.0.1", "2001:db8::7")))
        out.write(HANDED_ON.format(line=failures[-1].replace("127.0.0.1", "203.0.113.7")))
        out.write(PRETENDS)
    found = matched_by_fail2ban(log)
    expected = ["127.0.0.1"] * len(failures) + ["2001:db8::7"] * 2 + ["203.0.113.7"] * 2
    check(sorted(found) == sorted(expected), f"fail2ban finds {found}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:8-2"},
            "round": {"min_clients": 2},
            "log": {"format": "json", "requests": "all"},
        }).start()
        log = workspace.path / "aggregator.log"
        client = HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())
        requests_have_lines(aggregator, client, log)
        failed_handshakes_have_lines(aggregator, log)
        a_flood_writes_little(aggregator, client, log)
        fail2ban_reads_it(aggregator, client, log)


if __name__ == "__main__":
    sys.exit(main(test))
