#!/usr/bin/python3
"""A federation through the proxies that configs/proxies has examples for, the real ones: rounds, and a long update
that goes on where a cut connection stopped it. A second aggregator that they know does not listen, which nobody notices."""

import re
import socket
import ssl
import subprocess
import sys
import time

from cutting_proxy import PIECE, CuttingProxy
from harness import BIN, PATIENCE, Aggregator, Workspace, check, main
from http_by_hand import Connection
from proxies import as_nobody, example, port_to_keep, program_of, run_client, start_nginx, wait_for

UPDATE = 68_000 * 4  # bytes, a little less than it has


def start_haproxy(workspace, aggregator, port):
    folder = workspace.path / "haproxy"
    folder.mkdir()
    program, libraries = program_of("haproxy", folder)
    (folder / "ca.crt").write_bytes((workspace.path / "ca.crt").read_bytes())
    (folder / "haproxy.cfg").write_text(
        example("haproxy.cfg", bind=("bind :443", f"bind 127.0.0.1:{port}"),
                user=("    user haproxy\n    group haproxy\n", ""), files=("maxconn 20000", "maxconn 100"),
                server=("127.0.0.1:8443", f"127.0.0.1:{aggregator.port}"),
                neighbour=("    server aggregator", f"    server gone 127.0.0.1:{port_to_keep()} send-proxy-v2\n"
                           "    server aggregator"), log=("/dev/log", "127.0.0.1:9"),
                ca=("/etc/ssl/tern-aggregator-ca.crt", folder / "ca.crt")))
    command = ["env", f"LD_LIBRARY_PATH={libraries}", program, "-db", "-f", folder / "haproxy.cfg"]
    return workspace.start(*as_nobody(workspace, folder, command), log="haproxy")


def start_nginx_beside_one_that_is_gone(workspace, aggregator, port):
    return start_nginx(workspace, aggregator, port,
                       neighbour=("# server 10.0.0.2:8443", f"server 127.0.0.1:{port_to_keep()}"))


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
    check(re.search(r'event=proxy-header proxy=127\.0\.0\.1 why="the connection does not begin with a PROXY header"', log.read_text()),
          "the log does not say why")


def nobody_notices_the_one_that_is_gone(port, ca):
    for _ in range(6):
        with Connection(port, ca) as connection:
            status, _, _ = connection.request("GET", "/v1/statistics")
            check(status == 401, f"a request without a token is answered {status}")


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
        port = port_to_keep()
        wait_for(start(workspace, aggregator, port), port)
        nobody_notices_the_one_that_is_gone(port, aggregator.ca)
        cutting = CuttingProxy(port)
        run_client(workspace, aggregator, port, "enroll", aggregator.join_code())
        check("answer=accepted" in run_client(workspace, aggregator, cutting.port, "once"), "the first round was not done")
        check(cutting.cuts >= 2, f"{cutting.cuts} cuts")
        # Each cut wastes what was under way; an update that began anew would never have come to its end.
        check(UPDATE < cutting.passed < UPDATE + (cutting.cuts + 1) * PIECE, f"{cutting.passed} bytes went up")
        check("answer=accepted" in run_client(workspace, aggregator, port, "once"), "the second round was not done")
        check(aggregator.json("status")["rounds_committed"] == 2, "rounds are missing")
        if start is start_haproxy:
            asks_whether_it_is_ready(workspace)
            knows_its_clients(workspace, aggregator, port)


def test():
    rounds_through(start_nginx_beside_one_that_is_gone)
    rounds_through(start_haproxy)


if __name__ == "__main__":
    sys.exit(main(test))
