#!/usr/bin/python3
"""A name with two addresses, of which one refuses: the client goes on to the other by itself. Needs root, for names that
only its client sees."""

import os
import socket
import subprocess
import sys

from harness import BIN, PATIENCE, Aggregator, Workspace, check, main, skip

NAME = "several.example"
GONE, THERE = "127.0.0.12", "127.0.0.13"


def certify(workspace):
    """The server's certificate, for that name alone."""
    (workspace.path / "san.cnf").write_text(f"subjectAltName=DNS:{NAME}\n")
    subprocess.run(["openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                    "-CAcreateserial", "-days", "2", "-extfile", "san.cnf", "-out", "server.crt"],
                   cwd=workspace.path, check=True, stderr=subprocess.DEVNULL)


def run_client(workspace, aggregator, addresses, *words):
    hosts = workspace.path / "hosts"
    hosts.write_text("".join(f"{address} {NAME}\n" for address in addresses))
    settings = [f"client.server=https://{NAME}:{aggregator.port}", f"client.ca={aggregator.ca}", "client.wait=0",
                f"client.state_dir={workspace.path}/client", "data.source=digits:train=60,test=20,size=16"]
    done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts,
                           BIN / "tern-client", *words, *(part for one in settings for part in ("--set", one))],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    check(done.returncode == 0, f"{words[0]} exited {done.returncode}: {done.stderr}")
    check("event=failure" not in done.stderr, f"{words[0]} had trouble: {done.stderr}")
    return done.stderr


def test():
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        skip("mount namespaces need root")
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:256-10"},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": 2}}, address=THERE)
        certify(workspace)
        aggregator.start()
        with socket.socket() as probe:
            check(probe.connect_ex((GONE, aggregator.port)) != 0, f"somebody listens on {GONE}")
        for addresses in ((GONE, THERE), (THERE, GONE)):
            if addresses[0] == GONE:
                run_client(workspace, aggregator, addresses, "enroll", aggregator.join_code())
            check("answer=accepted" in run_client(workspace, aggregator, addresses, "once"), "a round was not done")


if __name__ == "__main__":
    sys.exit(main(test))
