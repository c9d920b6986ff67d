"""The verbs while a service runs: it takes new codes and revocations at once, and what they print
is what happened."""
import hashlib
import json
import pathlib
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from hand_client import HandClient, container  # noqa: E402
from harness import Aggregator, Failure, Workspace, check, main  # noqa: E402
from protobuf import first, parse  # noqa: E402

VALUES = 18  # of softmax:8-2
ROUNDS = 3


def encode(values):
    """docs/FORMAT.md: a float32 payload."""
    return b"\x01" + struct.pack(f"<{len(values)}f", *values)


def do_rounds(aggregator, client):
    """One client, one update per round; returns how many were accepted."""
    accepted = 0
    with client.connect() as connection:
        status, _, reply = client.checkin(connection, replica=client.seed_replica(), wait_ms=5000)
        check(status == 200, f"check-in answered {status}")
        for number in range(1, ROUNDS + 1):
            task = parse(first(reply, 1))
            check(first(task, 2) == number, f"task of round {first(task, 2)}, not {number}")
            body = client.update_body(task, container([0.01 * number] * VALUES, encode))
            status, _, answer = connection.request("PUT", f"/v1/updates/{number}/{number}",
                                                   token=client.token, body=body)
            check(status == 200, f"update {number} answered {status}: {answer}")
            accepted += 1
            if number < ROUNDS:
                status, _, reply = client.checkin(connection, replica=first(task, 3), wait_ms=5000)
    return accepted


def look_while_working(aggregator, stop, failures):
    """Every verb that reads, again and again."""
    while not stop.is_set():
        for verb in (["status"], ["clients"], ["rounds"], ["report", "bytes"], ["ledger"],
                     ["verify"]):
            try:
                aggregator.verb(*verb)
            except Exception as error:  # reported by the main thread
                failures.append(f"{verb}: {error}")
                return


def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:8-2", "seed": 5},
            "round": {"cohort": 1, "quorum": 1, "min_clients": 1, "rounds": ROUNDS,
                      "come_back_min": "10ms"},
            "codec": {"codec": "float32"},
        }).start()
        said = aggregator.json("status", "--set", "round.min_clients=7")["now"]
        check("waiting for 1 more client" in said, f"status goes by other settings than the service: {said}")
        client = HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())
        row = aggregator.json("clients")[0]
        check(row["name"] == "by hand", "the new client is not listed")
        check(row["address"] == "127.0.0.1", f"it enrolled from {row['address']}")
        several = aggregator.join_code(uses=3)
        others = [HandClient(aggregator.port, aggregator.ca).enroll(several) for _ in range(2)]
        codes = aggregator.json("codes")
        check([(code["uses"], code["enrolled"], code["state"]) for code in codes] ==
              [(0, 1, "used up"), (1, 2, "valid")], f"codes are {codes}")
        check(row["code"] == codes[0]["id"] and codes[1]["id"] in aggregator.verb("codes"), f"codes are {codes}")
        aggregator.verb("codes", "--cancel", codes[1]["id"])
        check(aggregator.json("codes")[1]["state"] == "used up", "a cancelled code is valid")
        try:
            HandClient(aggregator.port, aggregator.ca).enroll(several)
            refused = False
        except Failure:
            refused = True
        check(refused, "a cancelled code enrolled a client")
        aggregator.verb("codes", "--cancel", codes[1]["id"], ok=(4,))
        aggregator.verb("codes", "--cancel", "00000000", ok=(1,))
        check(json.loads(aggregator.verb("revoke", "--code", codes[1]["id"], "--json"))["revoked"] == 2,
              "not all who came by the code were revoked")
        aggregator.verb("revoke", "--code", codes[1]["id"], ok=(4,))
        aggregator.verb("revoke", ok=(2,))
        for other in others:
            with other.connect() as connection:
                check(other.checkin(connection, replica=other.seed_replica())[0] == 401, "a revoked client was heard")

        stop, failures = threading.Event(), []
        looking = threading.Thread(target=look_while_working, args=(aggregator, stop, failures))
        looking.start()
        accepted = do_rounds(aggregator, client)
        stop.set()
        looking.join()
        check(not failures, f"a verb failed beside the service: {failures}")

        status = aggregator.json("status")
        check(status["rounds_committed"] == accepted == ROUNDS, f"status says {status}")
        verified = aggregator.json("verify")
        check(verified["ok"] and verified["updates"] == ROUNDS, f"verify says {verified}")
        check(verified["model_sha256"] == status["model_sha256"], "verify and status disagree")
        weights = workspace.path / "weights.f32"
        aggregator.verb("export", str(weights))
        check(hashlib.sha256(weights.read_bytes()).hexdigest() == status["model_sha256"],
              "the exported weights have another hash")
        check(aggregator.json("ledger")[0]["round"] == ROUNDS, "the ledger is behind")

        with client.connect() as connection:
            check(client.checkin(connection, replica=client.seed_replica())[0] == 200,
                  "refused before the revocation")
            aggregator.verb("revoke", str(client.client_id))
            check(client.checkin(connection, replica=client.seed_replica())[0] == 401,
                  "a revoked client was heard on a kept connection")
        aggregator.verb("backup", str(workspace.path / "copy.db"))
        aggregator.kill()
        check(aggregator.json("clients")[0]["revoked"] is True, "the revocation did not last")
        check(aggregator.json("verify")["ok"], "not replayable after a kill")


main(test)
