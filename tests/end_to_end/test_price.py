"""The model of what bytes cost (shared/meter/meter.h) against the meter: a client and an aggregator
in a network namespace, on a link of 1,500 bytes MTU."""
import ctypes
import json
import os
import subprocess

from harness import BIN, Aggregator, Workspace, check, main, run, skip

CLONE_NEWNET = 0x40000000
SPARE = 200  # bytes above what was measured that the model may say of an exchange or handshake
SHARE = 0.04  # ... and of the bodies

SETTINGS = {
    "federation": {"model": "mlp:784-128-10"},
    "round": {"cohort": 1, "min_clients": 1, "rounds": 1000, "come_back_min": "10ms",
              "come_back_max": "100ms"},
    "codec": {"codec": "3lc:s=1"},
    "limits": {"requests_per_minute": 0},
}


def own_network():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        skip(f"no network namespace of its own: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "mtu", "1500", "up"], check=True)


def least(runs):
    """A busy machine sends acknowledgements of their own, which the model leaves out."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def holds(found, name, body=0):
    measured, modelled = found[f"{name}_wire"], found[f"{name}_wire_modelled"]
    print(f"{name}: {measured} bytes on the wire, {modelled} modelled")
    check(measured <= modelled <= measured + SPARE + SHARE * body,
          f"{name} takes {measured} bytes and is expected to take {modelled}")


def measure():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, SETTINGS).start()
        bench = BIN.parent / "bench-bin" / "bench-protocol"
        return json.loads(run(bench, aggregator.url, aggregator.ca, aggregator.join_code()))


def test():
    own_network()
    found = least([measure() for _ in range(3)])
    for purpose in ("checkin", "download", "upload"):
        holds(found, purpose, found[f"{purpose}_body"])
    for handshake in ("full", "ticket"):
        holds(found, f"{handshake}_handshake")


main(test)
