"""close-round while a service runs, and while none does: the round is merged with what it has, and what was
accepted stays; without an update it goes on with others."""
import pathlib
import signal
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
from hand_client import HandClient, container  # noqa: E402
from harness import Aggregator, Workspace, check, main  # noqa: E402
from protobuf import first, parse  # noqa: E402

VALUES = 18  # of softmax:8-2
NOTHING = 4

def encode(values):
    """docs/FORMAT.md: a float32 payload."""
    return b"\x01" + struct.pack(f"<{len(values)}f", *values)

def report(client, number, replica):
    """One of the two members does its part of the round."""
    with client.connect() as connection:
        status, _, reply = client.checkin(connection, replica=replica, wait_ms=5000)
        task = parse(first(reply, 1))
        check(status == 200 and first(task, 2) == number, f"check-in answered {status}, {task}")
        body = client.update_body(task, container([0.01] * VALUES, encode))
        status, _, answer = connection.request("PUT", f"/v1/updates/{number}/{number}",
                                               token=client.token, body=body)
        check(status == 200, f"the update was answered {status}: {answer}")

def wait_for(aggregator, what, condition):
    deadline = time.monotonic() + 60
    while not condition(aggregator.json("rounds")):
        check(time.monotonic() < deadline, f"not {what}: {aggregator.json('rounds')}")
        time.sleep(0.05)

def wait_for_round(aggregator, clients, number):
    """Clients that have come once are counted on, and rounds open."""
    for client in clients:
        with client.connect() as connection:
            check(client.checkin(connection, replica=client.seed_replica())[0] == 200, "a client was not heard")
    wait_for(aggregator, f"{number} rounds", lambda rounds: len(rounds) == number)

def test():
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:8-2", "seed": 5},
            "round": {"cohort": 2, "quorum": 2, "min_clients": 2, "deadline": "1d", "come_back_min": "10ms"},
            "codec": {"codec": "float32"},
        }).start()
        aggregator.verb("close-round", ok=(NOTHING,))  # before the first round
        code = aggregator.join_code(uses=2)
        clients = [HandClient(aggregator.port, aggregator.ca).enroll(code) for _ in range(2)]
        client = clients[0]

        wait_for_round(aggregator, clients, 1)
        before = aggregator.json("rounds")[0]
        check("no update" in aggregator.verb("close-round"), "what becomes of a round without updates is not said")
        wait_for(aggregator, "extended", lambda rounds: rounds[0]["attempts"] > before["attempts"])
        after = aggregator.json("rounds")
        check(len(after) == 1 and after[0]["state"] == "open", f"a round without an update ended: {after}")
        check(after[0]["deadline_ms"] > before["deadline_ms"], "its deadline did not move")

        report(client, 1, client.seed_replica())
        closed = aggregator.json("close-round")
        check(closed == {"round": 1, "reported": 1, "served": True}, f"close-round says {closed}")
        wait_for(aggregator, "closed", lambda rounds: rounds[0]["state"] == "committed")
        check(aggregator.json("rounds")[0]["applied"] == 1, "the update that was accepted was not merged")

        wait_for_round(aggregator, clients, 2)
        report(client, 2, client.seed_replica())
        aggregator.kill(signal.SIGTERM)
        check("when the service starts" in aggregator.verb("close-round"), "nothing is said of the service")
        check(aggregator.json("rounds")[1]["state"] == "open", "a verb merged")
        aggregator.start()
        wait_for(aggregator, "closed", lambda rounds: rounds[1]["state"] == "committed")
        check(aggregator.json("rounds")[1]["applied"] == 1, "the update that was accepted was not merged")
        verified = aggregator.json("verify")
        check(verified["ok"] and verified["updates"] == 2, f"verify says {verified}")

main(test)
