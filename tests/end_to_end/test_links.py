#!/usr/bin/python3
"""Links without IPv4, with a dead IPv6, and behind a NAT64, in network namespaces: a client's round goes over each.

The aggregator listens by default, on every address. The namespaces are those of the client, of a router and of the
aggregator; the router translates by Debian's tayga."""

import os
import subprocess
import sys
import time

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, neighbour, run, skip, wait_until, within

SPACES = [f"tern-{name}-{os.getpid()}" for name in ("client", "router", "server")]
CLIENT, ROUTER, SERVER = SPACES
SERVER4, SERVER6 = "10.79.2.2", "fd79:2::2"
DEAD6 = "fd79:dead::1"  # routed to the router, which drops it
PREFIX = "fd79:64::"    # of the NAT64: the last 32 bits are the IPv4 address
BOTH, TRANSLATED = "both.example", "translated.example"


def inside(namespace):
    """The beginning of a command there, as in test_wire_meter.py."""
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def ip(namespace, *words):
    run(*inside(namespace), "ip", *words)


def sysctl(namespace, name, value):
    run(*inside(namespace), "sysctl", "-qw", f"{name}={value}")


def address(namespace, device, *addresses):
    for one in addresses:
        ip(namespace, "addr", "add", one, "dev", device, *(["nodad"] if ":" in one else []))
    ip(namespace, "link", "set", device, "up")


def make_links():
    for namespace in SPACES:
        run("ip", "netns", "add", namespace)
        ip(namespace, "link", "set", "lo", "up")
    run("ip", "link", "add", "cr", "netns", CLIENT, "type", "veth", "peer", "name", "rc", "netns", ROUTER)
    run("ip", "link", "add", "sr", "netns", SERVER, "type", "veth", "peer", "name", "rs", "netns", ROUTER)
    address(CLIENT, "cr", "fd79:1::2/64")
    address(ROUTER, "rc", "fd79:1::1/64", "10.79.1.1/24")
    address(ROUTER, "rs", "fd79:2::1/64", "10.79.2.1/24")
    address(SERVER, "sr", f"{SERVER6}/64", f"{SERVER4}/24")
    for namespace, gateway in ((CLIENT, "fd79:1::1"), (SERVER, "fd79:2::1")):
        ip(namespace, "-6", "route", "add", "default", "via", gateway)
    ip(SERVER, "route", "add", "default", "via", "10.79.2.1")
    sysctl(ROUTER, "net.ipv6.conf.all.forwarding", 1)
    sysctl(ROUTER, "net.ipv4.ip_forward", 1)
    ip(ROUTER, "-6", "route", "add", "blackhole", f"{DEAD6}/128")
    sysctl(SERVER, "net.ipv6.bindv6only", 1)  # which the aggregator's default overrides


def remove_links():
    for namespace in SPACES:
        subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def give_client_ipv4():
    ip(CLIENT, "addr", "add", "10.79.1.2/24", "dev", "cr")
    ip(CLIENT, "route", "add", "default", "via", "10.79.1.1")


def take_client_ipv4():
    ip(CLIENT, "addr", "del", "10.79.1.2/24", "dev", "cr")


def start_nat64(workspace):
    program, _ = neighbour("tayga", "usr/sbin/tayga")
    (workspace.path / "tayga.conf").write_text(f"tun-device nat64\nipv4-addr 10.79.3.1\nipv6-addr fd79:3::1\n"
                                               f"prefix {PREFIX}/96\ndynamic-pool 10.79.3.0/24\n"
                                               f"data-dir {workspace.path}\n")
    command = [*inside(ROUTER), program, "--config", workspace.path / "tayga.conf"]
    run(*command, "--mktun")
    ip(ROUTER, "link", "set", "nat64", "up")
    ip(ROUTER, "route", "add", "10.79.3.0/24", "dev", "nat64")
    ip(ROUTER, "-6", "route", "add", f"{PREFIX}/96", "dev", "nat64")
    workspace.start(*command, "--nodetach", log="tayga")


def certify(workspace):
    (workspace.path / "san.cnf").write_text(f"subjectAltName=DNS:{BOTH},DNS:{TRANSLATED},IP:{SERVER6},IP:{SERVER4}\n")
    subprocess.run(["openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                    "-CAcreateserial", "-days", "2", "-extfile", "san.cnf", "-out", "server.crt"],
                   cwd=workspace.path, check=True, stderr=subprocess.DEVNULL)


class Device:
    def __init__(self, workspace, aggregator):
        self.workspace, self.aggregator = workspace, aggregator
        (workspace.path / "hosts").write_text(f"{DEAD6} {BOTH}\n{SERVER4} {BOTH}\n{PREFIX}{SERVER4} {TRANSLATED}\n")

    def run(self, host, *words):
        settings = [f"client.server=https://{host}:{self.aggregator.port}", f"client.ca={self.aggregator.ca}", "client.wait=0",
                    f"client.state_dir={self.workspace.path}/client", "data.source=digits:train=60,test=20,size=16"]
        start = time.monotonic()
        done = subprocess.run([*inside(CLIENT), "unshare", "--mount", "sh", "-c",
                               'mount --bind "$0" /etc/hosts && exec "$@"', self.workspace.path / "hosts",
                               BIN / "tern-client", *words, *(part for one in settings for part in ("--set", one))],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        check(done.returncode == 0, f"{words[0]} over {host} exited {done.returncode}: {done.stderr}")
        check("event=failure" not in done.stderr, f"{words[0]} over {host} had trouble: {done.stderr}")
        return done.stderr, time.monotonic() - start

    def do_round(self, host, what):
        said, seconds = self.run(host, "once")
        check("answer=accepted" in said, f"{what}: no update was accepted: {said}")
        print(f"{what}: a round in {seconds:.2f} s")
        return seconds


def test():
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], check=False).returncode != 0:
        skip("network namespaces need root")
    with Workspace() as workspace:
        try:
            make_links()
            aggregator = Aggregator(workspace, {
                "federation": {"model": "softmax:256-10"}, "server": {"address": None},
                "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": 4}},
                address=SERVER6, prefix=inside(SERVER))
            certify(workspace)
            aggregator.start()
            check("(IPv6 and IPv4)" in aggregator.log_line("listening on"), "the log does not name the families")
            device = Device(workspace, aggregator)
            device.run(f"[{SERVER6}]", "enroll", aggregator.join_code())
            alone = device.do_round(f"[{SERVER6}]", "IPv6 alone")
            give_client_ipv4()
            device.do_round(SERVER4, "IPv4")
            dead = device.do_round(BOTH, "a name whose IPv6 address is dead")
            # libcurl tries IPv4 after 200 ms, and each of the round's connections waits that long.
            check(dead < alone + within(2, beside=20), f"a dead address took {dead - alone:.1f} s")
            take_client_ipv4()
            if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
                skip("a NAT64 needs /dev/net/tun; all before it passed")
            start_nat64(workspace)
            connect = f"import socket; socket.create_connection(('{PREFIX}{SERVER4}', {aggregator.port}), 1)"
            wait_until("the NAT64 does not translate", lambda: subprocess.run(
                [*inside(CLIENT), sys.executable, "-c", connect], capture_output=True, check=False).returncode == 0)
            device.do_round(TRANSLATED, "NAT64")
        finally:
            remove_links()


if __name__ == "__main__":
    sys.exit(main(test))
