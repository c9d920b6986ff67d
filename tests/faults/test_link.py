"""Clients behind a bad link, in a network namespace of their own: 1 Mbit/s up and 4 down, 20 ms each way, one
packet in twenty lost, and every second the link forgets all connections and resets them. Rounds go on, no
update is missing or counted twice, and the history replays.
"""

import ctypes
import os
import pathlib
import subprocess
import sys

from faults import federation
from harness import LONG, check, main, run, skip

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "lab" / "bench"))
import bad_link  # noqa: E402

SERVER, CLIENTS = "10.88.0.1", "10.88.0.2"
RATES, DELAY, LOSS, CUT_EVERY = (1e6, 4e6), 0.02, 0.05, 1.0
ROUNDS = 400 if LONG else 6


def new_space():
    """Puts this thread into a network namespace that nobody else is in; returns its file descriptor."""
    if ctypes.CDLL(None, use_errno=True).unshare(bad_link.CLONE_NEWNET) != 0:
        skip("needs root for network namespaces")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def attach(name, address, peer, prefix=()):
    for command in (["addr", "add", address, "peer", peer, "dev", name], ["link", "set", name, "up"]):
        run(*prefix, "ip", *command)


def make_link():
    """Returns the link, which is not running yet, and the beginning of commands at the clients' end."""
    clients = new_space()
    server = new_space()
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        skip("needs /dev/net/tun")
    prefix = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{clients}")
    near, far = bad_link.open_tun("near", clients), bad_link.open_tun("far", server)
    attach("near", CLIENTS, SERVER, prefix)
    attach("far", SERVER, CLIENTS)
    return bad_link.Link(near, far, RATES, DELAY, LOSS, CUT_EVERY), prefix


def test():
    link, prefix = make_link()
    with federation(address=SERVER, clients=prefix) as running:
        link.start()
        running.expect_progress("a bad link", versions=ROUNDS)
        link.stop()
        updates = running.finish()
        check(link.cuts > 0 and sum(link.lost) > 0, "the link was a good one")
        print(f"{ROUNDS} rounds, {updates} updates are applied once; {sum(link.offered)} bytes, "
              f"{sum(link.lost)} lost, {link.cuts} cuts")


main(test)
