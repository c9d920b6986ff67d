"""A client made by hand from docs/PROTOCOL.md, for tests that must break the rules."""

import hashlib
import struct
import time

from harness import PATIENCE, check
from http_by_hand import Connection, request_bytes
from protobuf import first, message, parse, varint


def container(values, encode):
    """One segment (a model of fewer than 512 values has one) holding `values` as float32."""
    payload = encode(values)
    return varint(len(payload)) + payload


def while_busy(connection, ask):
    """The answer to a request, which is made again while the aggregator has no time for it, as clients do."""
    deadline = time.monotonic() + PATIENCE
    while True:
        status, headers, body = ask()
        if status != 503 or time.monotonic() > deadline:
            return status, headers, body
        time.sleep(int(headers.get("retry-after", 1)))
        if headers.get("connection") == "close":
            connection.open_again()


class HandClient:
    def __init__(self, port, ca):
        self.port, self.ca = port, ca
        self.token = self.model_hash = self.seed = None
        self.client_id = None

    def connect(self):
        return Connection(self.port, self.ca)

    def enroll(self, code, name="by hand"):
        with self.connect() as connection:
            status, _, body = while_busy(connection, lambda: connection.request(
                "POST", "/v1/enroll", body=message(f1=code, f2=name, f3="test")))
        check(status == 200, f"enrolment answered {status}")
        reply = parse(body)
        self.client_id = first(reply, 1)
        self.token = first(reply, 2).decode()
        model = parse(first(reply, 3))
        self.seed = first(model, 2, 0)
        self.model_hash = first(model, 3)
        return self

    def checkin_body(self, replica=None, version=None, wait_ms=0):
        every_codec = 0xffffffff  # it decodes nothing
        return message(f1=replica and replica[:8], f2=version, f3=wait_ms or None, f4=every_codec,
                       f16=self.model_hash)

    def seed_replica(self):
        """docs/FORMAT.md: the id of the replica that the seed makes."""
        return hashlib.sha256(b"tern replica seed" + self.model_hash +
                              struct.pack("<Q", self.seed)).digest()

    def checkin(self, connection, **named):
        status, headers, body = connection.request("POST", "/v1/checkin", token=self.token,
                                                   body=self.checkin_body(**named))
        return status, headers, parse(body) if status == 200 else body

    def task(self, connection, **named):
        status, _, reply = while_busy(connection, lambda: self.checkin(connection, **named))
        check(status == 200, f"check-in answered {status}")
        task = first(reply, 1)
        return None if task is None else parse(task)

    def update_body(self, task, container_bytes, num_examples=10):
        return message(f1=first(task, 3), f2=num_examples, f3=first(task, 6, 1), f4=0.5, f5=10,
                       f6=message(f2=1), f7=self.model_hash, f15=container_bytes)

    def put_bytes(self, round_number, sequence, body):
        return request_bytes("PUT", f"/v1/updates/{round_number}/{sequence}", token=self.token,
                             body=body)
