"""Devices without certificates: provisioned by the command line, let in by their pre-shared key,
and shut out at once when they are revoked."""

import base64
import hashlib
import sqlite3
import struct

from hand_client import HandClient, container
from harness import BIN, Aggregator, Workspace, check, main, run
from protobuf import first, message, parse
from psk_link import PskConnection, wait_for

VALUES = 16 * 4 + 4
BAD_RECORD_MAC, HANDSHAKE_FAILURE = 20, 40


class Device:
    """What a factory wrote."""

    def __init__(self, aggregator, *options):
        self.aggregator = aggregator
        self.facts = aggregator.json("provision", *options)
        self.id, self.token = self.facts["client"], self.facts["token"]
        self.key = self.facts.get("psk")

    def connect(self, **named):
        return PskConnection(self.aggregator.port, self.id, self.key, **named)

    def by_hand(self):
        hand = HandClient(self.aggregator.port, self.aggregator.ca)
        hand.client_id, hand.token = self.id, self.token
        hand.seed = self.facts["seed"]
        hand.model_hash = bytes.fromhex(self.facts["model_hash"])
        return hand


def ask(connection, token=None, body=b""):
    """The status of a check-in; None when there was no answer."""
    answer = connection.request("POST", "/v1/checkin", token=token, body=body)
    return answer[0] if answer else None


def status_of(device, token=None, **named):
    with device.connect(**named) as connection:
        return ask(connection, token)


def what_a_factory_writes(aggregator, device):
    check(device.facts["model"] == "softmax:16-4" and device.facts["seed"] == 3,
          f"provision said {device.facts}")
    check(device.facts["psk_identity"] == str(device.id), "the identity is not the id")
    key = hashlib.sha256(b"tern psk v1" + device.token.encode()).hexdigest()
    check(device.key == key, "the key is not the documented one")
    plain = Device(aggregator, "--name", "plain")
    check("psk" not in plain.facts, "a client without --psk has a key")
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        keys = dict(database.execute("SELECT client, hex(key) FROM psk_keys"))
        check(plain.id not in keys and keys[device.id].lower() == key, f"stored keys: {keys}")
        dump = "\n".join(database.iterdump())
    check(device.token not in dump and plain.token not in dump, "a token is stored as it is")
    # Its token does not make a key: that was never agreed on.
    plain.key = hashlib.sha256(b"tern psk v1" + plain.token.encode()).hexdigest()
    with plain.connect() as connection:
        check(ask(connection) is None and connection.alert == BAD_RECORD_MAC,
              "a client without a key was let in by one")
    with plain.by_hand().connect() as connection:
        status, _, _ = connection.request("POST", "/v1/checkin", token=plain.token)
        check(status == 200, f"its token was answered {status}")
    return plain


def the_handshake_is_the_credential(aggregator, device, plain):
    other = Device(aggregator, "--psk")
    with device.connect() as connection:
        check(ask(connection) == 200, "a check-in without a token was refused")
        check(ask(connection, device.token) == 200, "its own token was refused")
        for token in (plain.token, other.token, "A" * 22, "nonsense"):
            check(ask(connection, token) == 401, "another's token passed on its connection")
        check(ask(connection) == 200, "a refused request ended the connection")
        code = aggregator.join_code()
        status, _ = connection.request("POST", "/v1/enroll", body=message(f1=code, f2="x"))
        check(status == 401, f"an enrolment on its connection was answered {status}")
        status, _ = connection.request("GET", "/healthz")
        check(status == 200, f"healthz answered {status}")
    HandClient(aggregator.port, aggregator.ca).enroll(code)  # the code was not used up
    with plain.by_hand().connect() as connection:
        status, _, _ = connection.request("POST", "/v1/checkin")
        check(status == 401, "a connection by certificate passed without a token")


def wrong_keys_tell_nothing(device):
    for identity, key in ((device.id, "00" * 32), (4711, device.key), ("x", device.key)):
        with PskConnection(device.aggregator.port, identity, key) as connection:
            check(ask(connection) is None, f"identity {identity} was let in")
            check(connection.alert == BAD_RECORD_MAC, f"alert {connection.alert} for {identity}")


def rounds_without_a_token(aggregator, device, encode):
    """Three rounds over a connection that proves the client; the updates count."""
    hand = device.by_hand()
    replica = hand.seed_replica()
    version = 0
    with device.connect() as connection:
        for number in (1, 2, 3):
            status, body = connection.request(
                "POST", "/v1/checkin", body=message(f1=replica[:8], f2=version or None, f4=0xffffffff,
                                                    f16=hand.model_hash))
            check(status == 200, f"check-in answered {status}")
            task = parse(first(parse(body), 1))
            for ref in (parse(ref) for ref in task.get(5, [])):
                status, blob = connection.request("GET", "/v1/downloads/" + name(first(ref, 1)))
                check(status == 200 and hashlib.sha256(blob).digest() == first(ref, 1),
                      f"a download answered {status}")
            update = hand.update_body(task, container([0.25] * VALUES, encode))
            status, body = connection.request("PUT", f"/v1/updates/{number}/{number}", body=update)
            check(status == 200, f"update {number} answered {status}")
            replica, version = first(task, 3), first(task, 4, 0)
    check(aggregator.json("status")["version"] >= 3, "the updates did not count")


def name(sha256):
    return base64.urlsafe_b64encode(sha256).rstrip(b"=").decode()


def float32_encoder(workspace):
    def encode(values):
        source, target = workspace.path / "in.f32", workspace.path / "out.tern"
        source.write_bytes(struct.pack(f"<{len(values)}f", *values))
        run(BIN / "tern-codec", "encode", "float32", source, target)
        return target.read_bytes()
    return encode


def tickets_work_until_revoked(aggregator, device, workspace):
    session = workspace.path / "session"
    check(status_of(device, keep=session) == 200, "no session to keep")
    aggregator.kill()
    aggregator.start()
    with device.connect(resume=session) as connection:
        check(ask(connection) == 200 and connection.resumed, "a restart cost the ticket")
    with device.connect() as kept:
        check(ask(kept) == 200, "not connected")
        aggregator.verb("revoke", str(device.id))
        check(ask(kept) == 401, "an open connection outlived the revocation")
        check(status_of(device, resume=session) in (401, None), "a ticket outlived it")
        check(status_of(device) in (401, None), "the key outlived it")
    # Within a second the handshake fails, too, as with an unknown identity.
    check(wait_for(lambda: status_of(device) is None), "a revoked client still shakes hands")
    with device.connect(resume=session) as connection:
        check(ask(connection) is None and connection.alert == BAD_RECORD_MAC,
              "a revoked client's ticket is still resumed")
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        left = database.execute("SELECT 1 FROM psk_keys WHERE client = ?", [device.id]).fetchall()
        check(not left, "the key of a revoked client is kept")


def off_by_default(aggregator):
    device = Device(aggregator, "--psk")
    check(status_of(device) == 200, "the new device was not let in")
    aggregator.kill()
    del aggregator.settings["tls"]
    aggregator.write_config()
    aggregator.start()
    with device.connect() as connection:
        check(ask(connection) is None and connection.alert == HANDSHAKE_FAILURE,
              f"alert {connection.alert} without tls.psk")
    with device.by_hand().connect() as connection:
        status, _, _ = connection.request("POST", "/v1/checkin", token=device.token)
        check(status == 200, f"by certificate its token was answered {status}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:16-4", "seed": 3},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "deadline": "5m"},
            "codec": {"codec": "float32"},
            "train": {"local_steps": 2, "batch_size": 8},
            "tls": {"psk": "yes"},
        }).start()
        device = Device(aggregator, "--psk", "--name", "valve")
        rounds_without_a_token(aggregator, device, float32_encoder(workspace))
        plain = what_a_factory_writes(aggregator, device)
        the_handshake_is_the_credential(aggregator, device, plain)
        wrong_keys_tell_nothing(device)
        tickets_work_until_revoked(aggregator, device, workspace)
        off_by_default(aggregator)


main(test)
