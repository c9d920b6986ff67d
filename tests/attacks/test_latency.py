#!/usr/bin/python3
"""Honest clients beside attackers: what a new connection and its check-in take, over what they take in peace. Under
a sanitizer, that they are served at all while every attack goes on, and that it finds nothing."""

import pathlib
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import harness  # noqa: E402
from hand_client import HandClient  # noqa: E402
from harness import LONG, SANITIZED, Aggregator, Workspace, check  # noqa: E402

ATTACKS = ("hellos", "slow_handshakes", "slow_headers", "slow_bodies", "one_token", "bad_tokens")
ALWAYS = ("hellos", "slow_headers", "bad_tokens")
VISITS = 3 if SANITIZED else 200 if LONG else 15
FACTOR = 10  # of the median; it was 30 under hellos and above 50 under bad_tokens
TRIES = 3  # a machine that is busy with something else may fail one
LEAST = 0.01  # seconds: what is faster than this in peace counts as this


def visit(client):
    """Seconds of a full handshake and a check-in."""
    begin = time.monotonic()
    with client.connect() as connection:
        status, _, _ = client.checkin(connection, replica=client.seed_replica())
        check(status == 200, f"a check-in is answered {status}")
    return time.monotonic() - begin


def median_of_visits(client):
    return statistics.median(visit(client) for _ in range(VISITS))


def under_attack(aggregator, name, client, token):
    with subprocess.Popen([sys.executable, pathlib.Path(__file__).parent / "attackers.py", name,
                           str(aggregator.port), aggregator.ca, token],
                          stdout=subprocess.PIPE, text=True) as attacker:
        try:
            check(attacker.stdout.readline() == "ready\n", f"{name} did not begin")
            median = median_of_visits(client)
            check(attacker.poll() is None, f"{name} ended by itself")
            return median
        finally:
            attacker.kill()


def holds(aggregator, name, client, token):
    if SANITIZED:
        print(f"{name}: {under_attack(aggregator, name, client, token) * 1000:.1f} ms under attack", flush=True)
        return True
    peace = median_of_visits(client)
    war = under_attack(aggregator, name, client, token)
    print(f"{name}: {peace * 1000:.1f} ms in peace, {war * 1000:.1f} under attack", flush=True)
    return war < FACTOR * max(peace, LEAST)


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:4-2"},
            "round": {"min_clients": 1000, "come_back_min": "10ms"},
        }).start()
        code = aggregator.join_code(uses=2)
        honest = HandClient(aggregator.port, aggregator.ca).enroll(code)
        token = HandClient(aggregator.port, aggregator.ca).enroll(code).token
        for name in ATTACKS if LONG or SANITIZED else ALWAYS:
            check(any(holds(aggregator, name, honest, token) for _ in range(TRIES)),
                  f"under {name} a visit takes more than {FACTOR} times as long as in peace")
        aggregator.kill(signal.SIGTERM)
        check(aggregator.process.returncode == 0, f"the aggregator ended with {aggregator.process.returncode}")


if __name__ == "__main__":
    sys.exit(harness.main(test))
