"""Both ends' wire totals against the interface's own counters, in network namespaces.

Two namespaces joined by a veth pair; the interface counts what really crossed. Its
counters include 14 bytes of Ethernet header per packet, which the meters leave out.
"""

import json
import os
import shutil
import subprocess
import time

from harness import BIN, Aggregator, Workspace, check, main, run, skip

A, B = f"tern-a-{os.getpid()}", f"tern-b-{os.getpid()}"
TOLERANCE = 0.02
ETHERNET = 14


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def inside(namespace):
    return ["ip", "netns", "exec", namespace]


def make_link():
    for namespace in (A, B):
        ip("netns", "add", namespace)
        subprocess.run([*inside(namespace), "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                        "net.ipv6.conf.default.disable_ipv6=1"], check=False, capture_output=True)
    ip("link", "add", "va", "netns", A, "type", "veth", "peer", "name", "vb", "netns", B)
    for namespace, device, address in ((A, "va", "10.77.0.1"), (B, "vb", "10.77.0.2")):
        ip("-n", namespace, "addr", "add", f"{address}/24", "dev", device)
        ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", namespace, "link", "set", device, "up")
        # Offloads hand the interface packets larger than the link would carry.
        subprocess.run([*inside(namespace), "ethtool", "-K", device, "tso", "off", "gso", "off",
                        "gro", "off"], check=True, capture_output=True)


def remove_link():
    for namespace in (A, B):
        subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def counters():
    """(bytes, packets) that left and reached the client's interface."""
    text = run(*inside(B), "cat", "/proc/net/dev")
    fields = next(line for line in text.splitlines() if "vb:" in line).split(":")[1].split()
    received_bytes, received_packets = int(fields[0]), int(fields[1])
    sent_bytes, sent_packets = int(fields[8]), int(fields[9])
    return {"up": sent_bytes - ETHERNET * sent_packets,
            "down": received_bytes - ETHERNET * received_packets}


def compare(direction, who, counted, truth):
    off = counted / truth - 1
    print(f"{direction:4} {who:10} {counted:8} bytes, interface {truth:8}: {off:+.2%}")
    check(abs(off) <= TOLERANCE, f"{who} is {off:+.2%} off the interface, {direction}")


def test():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("ethtool"):
        skip("needs root, iproute2 and ethtool for network namespaces")
    try:
        make_link()
    except subprocess.CalledProcessError as error:
        remove_link()
        skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    try:
        measure()
    finally:
        remove_link()


def measure():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-64-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "5m", "rounds": 12},
            "train": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.05},
            "codec": {"codec": "3lc:s=1"},
        }, address="10.77.0.1", prefix=inside(A)).start()
        client_config = workspace.path / "client.ini"
        client_config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\n"
            f"state_dir = {workspace.path}/client\n[data]\nsource = digits:train=400,test=100,size=16\n")
        client = [*inside(B), BIN / "tern-client"]
        before = counters()
        run(*client, "enroll", "--config", client_config, aggregator.join_code())
        run(*client, "run", "--config", client_config, timeout=120)
        time.sleep(1)  # the last acknowledgements
        after = counters()
        meter = json.loads(run(BIN / "tern-client", "meter", "--config", client_config, "--json"))
        time.sleep(1.5)
        server = aggregator.json("report", "bytes")
        for direction in ("up", "down"):
            truth = after[direction] - before[direction]
            compare(direction, "client", meter[direction]["total"]["wire"], truth)
            compare(direction, "aggregator", server["total"][f"wire_{direction}"], truth)


main(test)
