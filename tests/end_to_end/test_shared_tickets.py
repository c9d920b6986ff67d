#!/usr/bin/python3
"""Aggregators on one database of PostgreSQL share the keys of session tickets: a client resumes its session with
another one than it had it from, also when the keys have changed meanwhile; one with another certificate shakes hands in
full. The database holds them sealed; where they are damaged there, that is said, and new ones take their place."""

import os
import pathlib
import socket
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "postgres"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))
import cluster  # noqa: E402
from faults import Control  # noqa: E402

from harness import BIN, HELPERS, PATIENCE, Aggregator, Workspace, check, main, make_certificates, skip  # noqa: E402

LOOKS_S = 60  # how often each looks into the database
MINUTE = 1 / 24 / 60  # of a day


class Node:
    """Another aggregator on the database of the first, with the settings of that but `more`."""

    def __init__(self, first, postgres, name, *more):
        self.workspace, self.name, self.process, self.port = first.workspace, name, None, 0
        self.state = self.workspace.path / name
        os.mkdir(self.state)
        settings = (f"server.port_file={self.state}/port", f"admin.address=unix:{self.state}/admin.sock",
                    "server.port=0", f"store.url={postgres.url(f'&application_name={name}')}", *more)
        self.command = [*first.prefix, BIN / "tern-aggregator", "serve", "--config", first.config,
                        "--state", self.state, *(part for one in settings for part in ("--set", one))]

    def start(self):
        port = self.state / "port"
        port.unlink(missing_ok=True)
        self.process = self.workspace.start(*self.command, log=self.name)
        deadline = time.monotonic() + PATIENCE
        while not port.exists() or not port.read_text().strip():
            check(self.process.poll() is None and time.monotonic() < deadline, f"{self.name} does not listen")
            time.sleep(0.01)
        self.port = int(port.read_text())

    def stop(self):
        self.process.terminate()
        check(self.process.wait(timeout=PATIENCE) == 0, f"{self.name} does not end by a signal")


def connect(node, ca, session=None):
    """The session that it ends with, and whether the handshake resumed the one that was offered."""
    context = ssl.create_default_context(cafile=ca)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose session is there when the handshake is over
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if session is not None:
        context = session[1]  # Python has a session belong to its context
    with socket.create_connection(("127.0.0.1", node.port), timeout=PATIENCE) as raw, \
            context.wrap_socket(raw, server_hostname="localhost", session=session and session[0]) as tls:
        tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        check(b" 200 " in tls.recv(65536), "the request is refused")
        return (tls.session, context), tls.session_reused


def resumes(node, ca, session):
    return connect(node, ca, session)[1]


def in_turn(before, after):
    """The one ends, and the other serves."""
    before.stop()
    after.start()


def rows(postgres):
    return [line.split("|") for line in postgres.sql(
        "SELECT changed_ms, encode(sealed, 'hex') FROM ticket_keys ORDER BY changed_ms").splitlines()]


def wait_for_a_change(postgres, before):
    deadline = time.monotonic() + LOOKS_S + 30
    while rows(postgres) == before:
        check(time.monotonic() < deadline, "nobody makes the next key")
        time.sleep(0.2)


def lie_sealed(postgres, node):
    keys = (node.state / "ticket.keys").read_bytes()
    check(keys[:8] == b"ternkey1" and len(keys) >= 52, "there are no keys")
    ((_, sealed),) = rows(postgres)
    for at in range(8, len(keys), 44):
        check(keys[at + 12:at + 44].hex() not in sealed, "a key can be read in the database")


def damage(postgres, how):
    postgres.sql(f"UPDATE ticket_keys SET sealed = {how} WHERE length(sealed) > 100")


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with cluster.Cluster() as postgres, Workspace() as workspace:
        clock = Control(workspace.path / "clock")
        shim = ("env", f"LD_PRELOAD={HELPERS / 'fault_shim.so'}", f"TERN_FAULTS={clock.path}")
        first = Aggregator(workspace, {"federation": {"model": "softmax:16-2"}, "store": {"url": postgres.url()}},
                           prefix=shim)
        one, two = Node(first, postgres, "one"), Node(first, postgres, "two")
        one.start()
        session, resumed = connect(one, first.ca)
        check(not resumed and resumes(one, first.ca, session), "one does not resume its own session")
        lie_sealed(postgres, one)

        in_turn(one, two)
        check(resumes(two, first.ca, session), "two does not resume a session of one")

        # The next key is there before its time, and nobody seals with it until then.
        before = rows(postgres)
        clock.set_clock(1 - 5 * MINUTE)
        wait_for_a_change(postgres, before)
        (_, resumed), (new, _) = connect(two, first.ca, session), connect(two, first.ca)
        check(resumed, "a session is not resumed any more when the next key is made")
        in_turn(two, one)
        check(resumes(one, first.ca, session) and resumes(one, first.ca, new), "one has not two's sessions")
        clock.set_clock(1 + 10 * MINUTE)
        newer, _ = connect(one, first.ca)
        in_turn(one, two)
        for which, name in ((session, "first"), (new, "second"), (newer, "third")):
            check(resumes(two, first.ca, which), f"the {name} session is not resumed a day later")
        lie_sealed(postgres, two)

        # Who has another certificate has other keys, and nobody's are lost for it.
        other = workspace.path / "other"
        other.mkdir()
        make_certificates(other)
        stranger = Node(first, postgres, "stranger", f"server.certificate={other}/server.crt",
                        f"server.private_key={other}/server.key")
        in_turn(two, stranger)
        session[1].load_verify_locations(other / "ca.crt")
        check(not resumes(stranger, other / "ca.crt", session), "a session of another certificate is resumed")
        check(len(rows(postgres)) == 2, "those with other keys have the same row")
        in_turn(stranger, one)
        check(resumes(one, first.ca, newer), "one's sessions are lost")

        for how in ("'\\x00'", "set_byte(sealed, 40, 255 - get_byte(sealed, 40))", "sealed || sealed"):
            one.stop()
            damage(postgres, how)
            one.start()
            log = (workspace.path / "one.log").read_text()
            check("event=ticket-keys-damaged" in log, f"nothing is said of keys that are {how}:\n{log}")
            check(len(rows(postgres)[-1][1]) > 200, "no new ones are in their place")
            fresh, _ = connect(one, first.ca)
            in_turn(one, two)
            check(resumes(two, first.ca, fresh), "new keys are not shared")
            (workspace.path / "one.log").write_text("")
            in_turn(two, one)
        one.stop()


main(test)
