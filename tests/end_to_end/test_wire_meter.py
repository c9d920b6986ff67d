"""Both ends' wire totals against their interfaces' own counters, in network namespaces.

Two namespaces joined by a wire; an interface counts what really crossed it. Its
counters include 14 bytes of Ethernet header per packet, which the meters leave out.

Once the wire is a veth pair. Once it loses one packet in fifty: a program between two
veth pairs drops them, since the kernel's netem is not everywhere. With loss the two ends of the wire see different traffic, so each end is
compared with its own interface. What an end sent, again or not, is all in its meter.
What it received twice is not: the kernel does not count bytes that it had already. The
received totals may therefore be below the interface's by what the peer sent again, and
never above.
"""

import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

from harness import BIN, PATIENCE, Aggregator, Failure, Workspace, check, main, run, skip

A, B = f"tern-a-{os.getpid()}", f"tern-b-{os.getpid()}"
WIRE = f"tern-w-{os.getpid()}"
TOLERANCE = 0.02
ETHERNET = 14
LOSS = 0.02
HEADERS = 52  # IPv4 and TCP with timestamps


def inside(namespace):
    """The beginning of a command there. `ip netns exec` and `ip -n` would mount something over /sys,
    for which / has to be a mount point, which it is not in every chroot."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def ip(*arguments, namespace=None):
    run(*(inside(namespace) if namespace else ()), "ip", *arguments)


def add_namespace(namespace):
    ip("netns", "add", namespace)
    subprocess.run([*inside(namespace), "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                    "net.ipv6.conf.default.disable_ipv6=1"], check=False, capture_output=True)


def bring_up(namespace, device):
    ip("link", "set", device, "up", namespace=namespace)
    # Offloads hand the interface packets larger than the link would carry, without checksums.
    run(*inside(namespace), "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off",
        "tx", "off")


def make_ends():
    for namespace, device, address in ((A, "va", "10.77.0.1"), (B, "vb", "10.77.0.2")):
        ip("addr", "add", f"{address}/24", "dev", device, namespace=namespace)
        ip("link", "set", "lo", "up", namespace=namespace)
        bring_up(namespace, device)


def make_link():
    for namespace in (A, B):
        add_namespace(namespace)
    ip("link", "add", "va", "netns", A, "type", "veth", "peer", "name", "vb", "netns", B)
    make_ends()


def make_lossy_link():
    for namespace in (A, B, WIRE):
        add_namespace(namespace)
    ip("link", "add", "va", "netns", A, "type", "veth", "peer", "name", "wa", "netns", WIRE)
    ip("link", "add", "vb", "netns", B, "type", "veth", "peer", "name", "wb", "netns", WIRE)
    make_ends()
    for device in ("wa", "wb"):
        bring_up(WIRE, device)


def remove_link():
    for namespace in (A, B, WIRE):
        subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def carry_with_loss():
    """The wire: every frame of one side goes to the other, but for one in fifty."""
    chance = random.Random(1)
    sockets = []
    for device in ("wa", "wb"):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
        end.bind((device, 0))
        sockets.append(end)
    print("ready", flush=True)
    while True:
        for source in select.select(sockets, [], [])[0]:
            frame, (_, _, kind, _, _) = source.recvfrom(65536)
            if kind != socket.PACKET_OUTGOING and chance.random() >= LOSS:
                sockets[1 - sockets.index(source)].send(frame)


def counters(namespace, device):
    """Bytes that left and reached an interface without Ethernet headers, and packets that left."""
    text = run(*inside(namespace), "cat", "/proc/net/dev")
    fields = next(line for line in text.splitlines() if f"{device}:" in line).split(":")[1].split()
    return {"sent": int(fields[8]) - ETHERNET * int(fields[9]), "packets": int(fields[9]),
            "received": int(fields[0]) - ETHERNET * int(fields[1])}


def compare(what, counted, truth, missing=0):
    """`missing`: bytes that the meter may lack, because the kernel does not count them."""
    off = counted / truth - 1
    print(f"{what:20} {counted:8} bytes, interface {truth:8}: {off:+.2%}, may lack {missing}")
    check(counted <= truth * (1 + TOLERANCE) and counted + missing >= truth * (1 - TOLERANCE),
          f"{what}: the meter is {off:+.2%} off the interface")


def sent_again(meter, interface):
    """Bytes that left an interface and are neither headers nor the stream itself."""
    return max(0, interface["sent"] - HEADERS * interface["packets"] - meter["stream"])


def compare_ends(client, aggregator, lossy):
    """Each end: its meter and its interface, both with what that end sent and received."""
    again = 0
    for name, end, peer in (("client", client, aggregator), ("aggregator", aggregator, client)):
        twice = sent_again(*peer) if lossy else 0
        again += twice
        compare(f"{name} sent", end[0]["sent"], end[1]["sent"])
        compare(f"{name} received", end[0]["received"], end[1]["received"], twice)
    check(not lossy or again > 2000, f"only {again} bytes were sent again: the wire lost nothing")


def can_make_namespaces():
    try:
        add_namespace(A)
    except Failure as failure:
        return str(failure)
    finally:
        remove_link()
    return ""


def on_a_wire(make, lossy):
    wire = None
    try:
        make()
        if lossy:
            wire = subprocess.Popen([*inside(WIRE), sys.executable, __file__, "--wire"],
                                    stdout=subprocess.PIPE, text=True)
            check(wire.stdout.readline() == "ready\n", "the lossy wire did not start")
        measure(lossy)
    finally:
        if wire is not None:
            wire.kill()
            wire.wait()
            wire.stdout.close()
        remove_link()


def client_meter(config):
    meter = json.loads(run(BIN / "tern-client", "meter", "--config", config, "--json"))
    up, down = meter["up"]["total"], meter["down"]["total"]
    return {"sent": up["wire"], "received": down["wire"], "stream": up["tls"]}


def aggregator_meter(aggregator):
    total = aggregator.json("report", "bytes")["total"]
    return {"sent": total["wire_down"], "received": total["wire_up"], "stream": total["tls_down"]}


def difference(after, before):
    return {key: after[key] - before[key] for key in after}


def once_quiet():
    """Both interfaces' counters, once nothing crossed them for longer than TCP waits to send again."""
    deadline = time.monotonic() + PATIENCE
    seen, since = None, 0.0
    while seen is None or time.monotonic() - since < 0.5:
        check(time.monotonic() < deadline, "the wire does not fall quiet")
        now = counters(A, "va"), counters(B, "vb")
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.02)
    return seen


def measure(lossy):
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "mlp:256-64-10", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "5m", "rounds": 12},
            "train": {"local_steps": 2, "batch_size": 8, "learning_rate": 0.05},
            # With loss more packets are needed for some to be lost.
            "codec": {"codec": "float32" if lossy else "3lc:s=1"},
        }, address="10.77.0.1", prefix=inside(A)).start()
        config = workspace.path / "client.ini"
        config.write_text(
            f"[client]\nserver = {aggregator.url}\nca = {aggregator.ca}\n"
            f"state_dir = {workspace.path}/client\n[data]\nsource = digits:train=400,test=100,size=16\n")
        client = [*inside(B), BIN / "tern-client"]
        before = counters(A, "va"), counters(B, "vb")
        run(*client, "enroll", "--config", config, aggregator.join_code())
        run(*client, "run", "--config", config)
        at_a, at_b = map(difference, once_quiet(), before)
        aggregator.kill(signal.SIGTERM)  # it stores its books
        print("with loss" if lossy else "without loss")
        compare_ends((client_meter(config), at_b), (aggregator_meter(aggregator), at_a), lossy)


def test():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("ethtool"):
        skip("needs root, iproute2 and ethtool for network namespaces")
    why_not = can_make_namespaces()
    if why_not:
        skip(f"no network namespaces here: {why_not}")
    on_a_wire(make_link, False)
    on_a_wire(make_lossy_link, True)


if "--wire" in sys.argv:
    carry_with_loss()
main(test)
