#!/usr/bin/python3
"""Every endpoint with every bad credential: one answer for all, which tells nothing of what was wrong."""

import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import harness  # noqa: E402
from attackers import BAD_TOKEN, HASH  # noqa: E402
from hand_client import HandClient  # noqa: E402
from harness import Aggregator, Workspace, check  # noqa: E402
from http_by_hand import request_bytes  # noqa: E402

CLIENTS = (("POST", "/v1/checkin"), ("GET", f"/v1/downloads/{HASH}"), ("PUT", "/v1/updates/1/1"),
           ("GET", "/v1/updates/1/1"))
OPERATORS = (("GET", "/metrics"), ("GET", "/api/v1/status"), ("GET", "/api/v1/clients"), ("GET", "/api/v1/rounds"),
             ("POST", "/api/v1/enroll-codes"), ("POST", "/api/v1/clients/1/revoke"))


def bad_credentials(good, revoked, others):
    """Values of Authorization; None = no such header. others: what is good elsewhere."""
    return [None, "", "Bearer", "Bearer ", f"Basic {good}", good, f"Bearer {BAD_TOKEN}", f"Bearer {good[:-1]}",
            f"Bearer {good}=", f"Bearer {good} {good}", f"Bearer {good},Bearer {good}", f"Bearer {revoked}",
            f"Bearer {good.swapcase()}", "Bearer " + "A" * 2000, "Bearer %00", "Bearer \xff\xfe",
            *(f"Bearer {other}" for other in others)]


def request(method, path, credential):
    headers = [] if credential is None else [f"Authorization: {credential}"]
    return request_bytes(method, path, headers=headers)


class Admin:
    """A connection to the operators' listener, which is in the clear."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))

    def receive(self):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(body) < int(lengths[0].split(b":")[1]):
            body += self.socket.recv(65536)
        return int(head.split()[1]), body


def one_answer(answers, what):
    check(len(set(answers.values())) == 1, f"{what} tells credentials apart: {answers}")
    status, _ = next(iter(answers.values()))
    check(status == 401, f"{what} with bad credentials is answered {status}")


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {"federation": {"model": "softmax:4-2"},
                                            "round": {"min_clients": 1000}}).start()
        code = aggregator.join_code(uses=3)
        good, bad = (HandClient(aggregator.port, aggregator.ca).enroll(code) for _ in range(2))
        aggregator.verb("revoke", str(bad.client_id))
        admin_token = (aggregator.state / "admin.token").read_text().strip()
        credentials = bad_credentials(good.token, bad.token, (code, admin_token))
        for method, path in CLIENTS:
            answers = {}
            with good.connect() as connection:
                for credential in credentials:
                    connection.send(request(method, path, credential))
                    status, _, body = connection.receive()
                    answers[credential] = status, body
            one_answer(answers, f"{method} {path}")
        credentials = bad_credentials(admin_token, BAD_TOKEN, (code, good.token))
        for method, path in OPERATORS:
            answers = {}
            admin = Admin(workspace.path / "admin.sock")
            for credential in credentials:
                admin.socket.sendall(request(method, path, credential))
                answers[credential] = admin.receive()
            one_answer(answers, f"{method} {path} of operators")
        with good.connect() as connection:
            check(good.checkin(connection, replica=good.seed_replica())[0] == 200, "the good token is refused")
        check(aggregator.json("clients")[0]["revoked"] in (0, False), "a client was revoked without credentials")


if __name__ == "__main__":
    sys.exit(harness.main(test))
