#!/usr/bin/python3
"""Aggregators that follow sum what they check, and the one that leads joins their parts: the model is the same as with one
aggregator on SQLite, also when one that follows is killed before it delivers, and when parts are damaged in the table."""

import random
import struct

from hand_client import HandClient, container
from harness import Aggregator, Workspace, check, main, skip
from nodes import Node, cluster, wait_until
from protobuf import first

CLIENTS = 16  # half of them by each that follows: enough that a part has fewer bytes than their bodies
VALUES = 40 * 8 + 8
SETTINGS = {
    "federation": {"model": "softmax:40-8", "seed": 7},
    "round": {"cohort": CLIENTS, "quorum": CLIENTS, "min_clients": CLIENTS, "deadline": "24h", "rounds": 1},
    "limits": {"requests_per_minute": 0, "enrollments_per_minute": 0},
}


def values_of(number):
    rng = random.Random(number)
    return [rng.uniform(-0.01, 0.01) for _ in range(VALUES)]


def encode(values):
    """docs/FORMAT.md: a float32 payload, which no listener keeps what it read of."""
    return b"\x01" + struct.pack(f"<{len(values)}f", *values)


def train(client, number, task):
    body = client.update_body(task, container(values_of(number), encode), num_examples=10 + number)
    with client.connect() as connection:
        connection.send(client.put_bytes(first(task, 2), 1, body))
        status, _, reply = connection.receive()
    check(status == 200, f"update {number} was answered {status}: {reply}")


def one_round(leader, ports, before_the_last=lambda: None):
    """Returns the model. Clients send by one port after the other, the last one by the last."""
    code = leader.join_code(CLIENTS)
    clients = [HandClient(ports[number % len(ports)], leader.ca).enroll(code) for number in range(CLIENTS)]
    tasks = []
    for client in clients:
        with client.connect() as connection:
            tasks.append(client.task(connection, replica=client.seed_replica(), version=0))
    check(all(tasks), "one has no task")
    for number in range(CLIENTS - 1):
        train(clients[number], number, tasks[number])
    before_the_last()
    train(clients[-1], CLIENTS - 1, tasks[-1])
    wait_until("the round does not end", lambda: leader.json("rounds")[0]["state"] == "committed", 20)
    return leader.json("verify")["model_sha256"]


def alone():
    with Workspace() as workspace:
        only = Aggregator(workspace, SETTINGS).start()
        return one_round(only, [only.port])


def lines(workspace, name, event):
    return [line for line in (workspace.path / f"{name}.log").read_text().splitlines() if f"event={event} " in line]


class Several:
    def __enter__(self):
        self.postgres = cluster.Cluster()
        self.workspace = Workspace()
        self.leader = Aggregator(self.workspace, {
            **SETTINGS, "store": {"url": self.postgres.url("&application_name=one")}}).start()
        self.two, self.three = (Node(self.leader, name, self.postgres.url()).start().listens() for name in ("two", "three"))
        return self

    def __exit__(self, *failure):
        self.workspace.__exit__(*failure)
        self.postgres.end()

    def one_round(self, before_the_last=lambda: None):
        return one_round(self.leader, [self.two.port, self.three.port], before_the_last)

    def joined(self):
        return lines(self.workspace, "aggregator", "part")

    def check_parts(self, delivered, joined, refused):
        found = [sum(len(lines(self.workspace, f"node-{name}", "part-delivered")) for name in ("two", "three")),
                 len(self.joined()), len(lines(self.workspace, "aggregator", "part-refused"))]
        check(found == [delivered, joined, refused], f"{found} parts were delivered, joined and refused")
        updates = sum(int(line.rpartition("updates=")[2]) for line in self.joined())
        # The update that completes the round is answered when it is over, and so in no part.
        check(updates == joined * CLIENTS // 2 - (joined > 0), f"{self.joined()}")
        check(self.postgres.sql("SELECT count(*) FROM parts") == "0", "a part is left")


def undisturbed(model):
    with Several() as several:
        check(several.one_round() == model, "with two parts the model is another one")
        several.check_parts(delivered=2, joined=2, refused=0)


def killed(model):
    with Several() as several:
        check(several.one_round(several.two.kill) == model, "without the part of one that was killed it is another model")
        several.check_parts(delivered=1, joined=1, refused=0)


def damaged(model):
    with Several() as several:
        several.postgres.sql("CREATE FUNCTION damage() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
                             " NEW.body = set_byte(NEW.body, length(NEW.body) - 40, 255 - get_byte(NEW.body, length(NEW.body) - 40));"
                             " RETURN NEW; END$$")
        several.postgres.sql("CREATE TRIGGER damaged BEFORE INSERT ON parts FOR EACH ROW EXECUTE FUNCTION damage()")
        check(several.one_round() == model, "damaged parts make another model")
        several.check_parts(delivered=2, joined=0, refused=2)
        reasons = lines(several.workspace, "aggregator", "part-refused")
        check(all('reason="' in line for line in reasons), f"{reasons}")
        print(reasons[0])


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    model = alone()
    undisturbed(model)
    killed(model)
    damaged(model)


main(test)
