#!/usr/bin/python3
"""What clients may rely on where several aggregators serve one database of PostgreSQL, request by request: a held check-in
is answered at once wherever its round opens; who has enrolled with one may talk to each at once; limits are those of one
aggregator; a damaged update is refused alike by each; and the ledger has every byte that came and went, once. Budgets, error
buffers and settings are those of one aggregator, too, and each is told from all others."""

import concurrent.futures
import math
import random
import signal
import struct
import time

from hand_client import HandClient, container
from harness import Aggregator, Workspace, check, main, skip, within
from http_by_hand import Connection, request_bytes
from nodes import Node, cluster, wait_until
from protobuf import first, message, parse

WAKES_S = within(1, 20)  # a check-in that is not woken is held for a minute
GIVES_UP_S = within(8, 25)  # a follower without an answer gives up after 30 s and more
FLOOD = 20000
UPDATE, SCALING = 4, 7  # of the kinds of requests
CODEC, WINDOW = 12, 15  # of a task
VALUES = 40 * 8 + 8
RICH = "density:p=0.5,coder=range"
SETTINGS = {
    "federation": {"model": "softmax:40-8", "seed": 7},
    "round": {"cohort": 4, "quorum": 4, "min_clients": 4, "deadline": "24h", "rounds": 3},
    "limits": {"requests_per_minute": 0, "enrollments_per_minute": 0},
}


def encode(values):
    """docs/FORMAT.md: a float32 payload."""
    return b"\x01" + struct.pack(f"<{len(values)}f", *values)


class Federation:
    """Three aggregators: the first leads."""

    def __init__(self, **limits):
        self.settings = {**SETTINGS, "limits": {**SETTINGS["limits"], **limits}}

    def __enter__(self):
        self.postgres = cluster.Cluster()
        self.workspace = Workspace()
        self.first = Aggregator(self.workspace, {
            **self.settings, "store": {"url": self.postgres.url("&application_name=one")}}).start()
        self.nodes = [Node(self.first, name, self.postgres.url()).start().listens() for name in ("two", "three")]
        self.ports = [self.first.port, *(node.port for node in self.nodes)]
        return self

    def __exit__(self, *failure):
        self.workspace.__exit__(*failure)
        self.postgres.end()

    def client(self, port, code=None):
        return HandClient(port, self.first.ca).enroll(code or self.first.join_code())


def at(client, port):
    """The same client, at another aggregator."""
    other = HandClient(port, client.ca)
    other.token, other.model_hash, other.seed = client.token, client.model_hash, client.seed
    return other


def test_wakes(federation):
    """Of the four that a round needs three wait, at one aggregator each, until the fourth enrols at one that follows."""
    clients = [federation.client(port) for port in federation.ports]

    def wait(client):
        with client.connect() as connection:
            return client.task(connection, replica=client.seed_replica(), version=0, wait_ms=60000), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = [pool.submit(wait, client) for client in clients]
        time.sleep(1)
        check(not any(answer.done() for answer in answers), "a check-in is not held")
        federation.client(federation.ports[2])
        came = time.monotonic()
        tasks, woke = zip(*(answer.result(timeout=60) for answer in answers))
    check(all(tasks), "one has no task")
    check(max(woke) - came < WAKES_S, f"they woke after {[round(at - came, 3) for at in woke]} s")
    print(f"held check-ins woke {', '.join(f'{1000 * (at - came):.0f}' for at in woke)} ms after the round opened")
    return clients, tasks[0]


def test_enrolled(federation):
    for number in range(30):
        client = federation.client(federation.ports[number % 3])
        for port in (federation.ports[(number + 1) % 3], federation.ports[(number + 2) % 3]):
            with Connection(port, client.ca) as connection:
                status, _, body = connection.request("POST", "/v1/checkin", token=client.token,
                                                     body=client.checkin_body(replica=client.seed_replica(), version=0))
            check(status == 200, f"client {number} was answered {status} elsewhere: {body}")
    with Connection(federation.ports[1], client.ca) as connection:
        status, _, _ = connection.request("POST", "/v1/checkin", token="A" * 22, body=client.checkin_body())
        check(status == 401, f"a token of nobody was answered {status}")
        status, _, _ = connection.request("POST", "/v1/checkin", token="A" * 21, body=client.checkin_body())
        check(status == 401, f"no token was answered {status}")


def test_revoked(federation):
    client = federation.client(federation.ports[0])
    federation.first.verb("revoke", str(client.client_id))

    def status_at(port):
        with Connection(port, client.ca) as connection:
            return connection.request("POST", "/v1/checkin", token=client.token, body=client.checkin_body())[0]
    for port in federation.ports:
        wait_until(f"it is still admitted at {port}", lambda: status_at(port) == 401)


def test_damaged(federation, clients, task):
    rng = random.Random(3)
    client = clients[0]
    body = client.update_body(task, container([0.5] * VALUES, encode))
    bad = [body[:-7], body[:40], body + b"\x01" * 5, client.update_body(task, b"\x7f" * 40)]
    for _ in range(20):
        cut = bytearray(body[:rng.randrange(len(body) - 1)])
        bad.append(bytes(cut))
    for number, damaged in enumerate(bad):
        answers = []
        for port in federation.ports:
            with Connection(port, client.ca) as connection:
                connection.send(at(client, port).put_bytes(first(task, 2), 1, damaged))
                status, _, reply = connection.receive()
                answers.append((status, first(parse(reply), 1, b"?").decode(), first(parse(reply), 2, b"?").decode()))
        check(len(set(answers)) == 1, f"{number} is refused in different ways: {answers}")
        check(400 <= answers[0][0] < 500, f"{number} is answered {answers[0]}")


def test_one_that_cannot_be_stored(federation):
    """A request with which each transaction fails is refused, and those of others go on meanwhile."""
    client = federation.client(federation.ports[1])
    code = federation.first.join_code(2)
    federation.postgres.sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no'; END$$")
    federation.postgres.sql("CREATE TRIGGER refused BEFORE INSERT ON clients FOR EACH ROW WHEN (NEW.name = 'bad')"
                            " EXECUTE FUNCTION refuse()")
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        bad = pool.submit(statuses, [(federation.ports[1], client.ca, (
            ("POST", "/v1/enroll"), {"body": message(f1=code, f2="bad", f3="test")}))])
        time.sleep(0.3)
        with Connection(federation.ports[2], client.ca) as connection:
            client.task(connection, replica=client.seed_replica(), version=0)
        went_on = time.monotonic() - began
        check(bad.result(timeout=60) == [503], f"what cannot be stored was answered {bad.result()}")
    took = time.monotonic() - began
    check(took < GIVES_UP_S and went_on < GIVES_UP_S, f"it took {took:.1f} s, and others went on after {went_on:.1f} s")
    # Rows of counted bytes come and go meanwhile.
    wait_until("its row is left", lambda: federation.postgres.sql("SELECT count(*) FROM relayed") == "0")
    federation.postgres.sql("DROP FUNCTION refuse CASCADE")


def hand_over(federation, count, **values):
    """Rows as of an aggregator that follows; values: SQL, where n is the number of the row."""
    columns = federation.postgres.sql("SELECT string_agg(column_name, ',') FROM information_schema.columns"
                                      " WHERE table_name = 'relayed'").split(",")
    texts = {name: "''" for name in ("path", "peer", "certificate", "body")}
    hashes = {name: "decode(repeat('00', 32), 'hex')" for name in ("address", "sha256")}
    row = {**texts, **hashes, "node": "1", "number": "n", **values}
    federation.postgres.sql(f"INSERT INTO relayed ({','.join(columns)}) SELECT {','.join(row.get(c, '0') for c in columns)}"
                            f" FROM generate_series(1, {count}) AS n")


def test_forged(federation, clients, task):
    """Limits go by what the leader reads, whatever an aggregator that follows says it has found."""
    client = clients[1]
    body = client.update_body(task, container([1e20] * VALUES, encode))
    hand_over(federation, 1, kind=str(UPDATE), client=str(client.client_id), path=f"'/v1/updates/{first(task, 2)}/1'",
              checked="1", body=f"decode('{body.hex()}', 'hex')")
    wait_until("it has no answer", lambda: federation.postgres.sql("SELECT count(*) FROM answers WHERE node = 1") == "1")
    answer = federation.postgres.sql("SELECT status, encode(body, 'hex') FROM answers WHERE node = 1").split("|")
    check(answer[0] == "422" and b"norm-limit" in bytes.fromhex(answer[1]), f"it was answered {bytes.fromhex(answer[1])}")


def test_unreadable(federation):
    """A row that the leader cannot read is none of the others' business."""
    hand_over(federation, 1, number="9", path="repeat('x', 1000)")
    client = federation.client(federation.ports[1])
    began = time.monotonic()
    with Connection(federation.ports[2], client.ca) as connection:
        client.task(connection, replica=client.seed_replica(), version=0)
    check(time.monotonic() - began < GIVES_UP_S, "others have to wait for it")
    federation.postgres.sql("DELETE FROM relayed WHERE node = 1")


def test_flood(federation):
    """One that hands over more than can be decided at once keeps the others waiting no longer than a turn each: when the
    leader removes another's check-in, rows of the flood are left."""
    client = federation.client(federation.ports[1])
    for statement in (
            "CREATE TABLE left_behind (rows bigint)",
            "CREATE FUNCTION note_left() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN INSERT INTO left_behind SELECT count(*) FROM relayed WHERE node = 1; RETURN OLD; END$$",
            "CREATE TRIGGER noted BEFORE DELETE ON relayed FOR EACH ROW"
            f" WHEN (OLD.node <> 1 AND OLD.client = {client.client_id}) EXECUTE FUNCTION note_left()"):
        federation.postgres.sql(statement)
    hand_over(federation, FLOOD, number="n + 10", kind=str(SCALING), client=str(client.client_id), path="'/v1/statistics'")
    with Connection(federation.ports[2], client.ca) as connection:
        client.task(connection, replica=client.seed_replica(), version=0)
    wait_until("what was handed over is not decided", lambda: federation.postgres.sql("SELECT count(*) FROM relayed") == "0")
    left = int(federation.postgres.sql("SELECT coalesce(min(rows), 0) FROM left_behind"))
    check(left > 0, f"it had to wait until {left} of {FLOOD} were left")
    print(f"of {FLOOD} rows {left} were left when another's check-in was decided")
    federation.postgres.sql("DROP FUNCTION note_left CASCADE")


def statuses(requests):
    """Of requests that are made all at once."""
    def one(request):
        port, ca, arguments = request
        with Connection(port, ca) as connection:
            return connection.request(*arguments[0], **arguments[1])[0]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        return list(pool.map(one, requests))


def enrolment(code):
    return ("POST", "/v1/enroll"), {"body": message(f1=code, f2="by hand", f3="test")}


def test_limits():
    with Federation(requests_per_minute=20, enrollments_per_minute=12) as federation:
        code = federation.first.join_code(4)
        answers = statuses([(federation.ports[i % 3], federation.first.ca, enrolment(code)) for i in range(9)])
        check(answers.count(200) == 4, f"a code of four uses lets in: {answers}")
        more = federation.first.join_code(50)
        began = time.monotonic()
        answers = statuses([(federation.ports[i % 3], federation.first.ca, enrolment(more)) for i in range(40)])
        # Until the leader has read a new code, enrolments with it take from the allowance of unknown ones, 12 as well.
        more_let_in = answers.count(200)
        refilled = math.ceil((time.monotonic() - began) * 2 * 12 / 60)
        check(12 - 9 <= more_let_in <= 2 * 12 + refilled and answers.count(429) == 40 - more_let_in,
              f"of an address that may enrol 12 by a code and 12 by unknown ones: {answers}")
        (enrolled, client_id), = [line.split("|") for line in federation.postgres.sql(
            "SELECT count(*), max(id) FROM clients").splitlines()]
        check(enrolled == client_id == str(4 + more_let_in), f"{enrolled} clients are stored, the last is {client_id}")
    with Federation(requests_per_minute=20, enrollments_per_minute=0) as federation:
        client = federation.client(federation.ports[1])
        request = (("GET", "/v1/statistics"), {"token": client.token})
        answers = statuses([(federation.ports[i % 3], client.ca, request) for i in range(60)])
        check(18 <= answers.count(200) <= 22, f"{answers.count(200)} requests of 20 in a minute were served")
        check(answers.count(429) == 60 - answers.count(200), f"the others were answered {set(answers)}")


def test_clients():
    """limits.clients, wherever they enrol."""
    with Federation(clients=4) as federation:
        code = federation.first.join_code(50)
        answers = statuses([(federation.ports[i % 3], federation.first.ca, enrolment(code)) for i in range(12)])
        check(answers.count(200) == 4 and answers.count(503) == 8, f"of four that may enrol: {answers}")
        check(federation.postgres.sql("SELECT count(*) FROM clients") == "4", "others are stored")


def checkin_with(client, port, **fields):
    body = client.checkin_body(replica=client.seed_replica(), version=0)
    with Connection(port, client.ca) as connection:
        status, _, reply = connection.request("POST", "/v1/checkin", token=client.token, body=body + message(**fields))
    check(status == 200, f"it was answered {status}")
    return first(parse(reply), 1)


def test_budgets():
    """What a client has left, told to any of them, decides its task at all."""
    federation = Federation()
    federation.settings["round"] = {**SETTINGS["round"], "cohort": 1, "quorum": 1, "min_clients": 1}
    federation.settings.setdefault("train", {})["schedule"] = "budget"
    federation.settings["codec"] = {"codec": RICH, "codec_down": "float32"}
    with federation:
        client = federation.client(federation.ports[1])
        tasks = []
        for number, port in enumerate([*federation.ports[1:], federation.ports[0]]):
            left = 2500 + number
            tasks.append(checkin_with(client, port, f8=left, f9=1))
            wait_until(f"{left} bytes are left, and others are stored", lambda: federation.postgres.sql(
                "SELECT budgeted, budget_left FROM clients") == f"1|{left}")
        check(all(tasks), "it has no task")
        told = [{number: values for number, values in parse(task).items() if number != WINDOW} for task in tasks]
        check(told[0] == told[1] == told[2], f"it has another task elsewhere: {told}")
        check(first(told[0], CODEC) != RICH.encode(), f"with {left} bytes it may send {first(told[0], CODEC)}")


def test_cloned():
    """Two devices under one identity, each at another aggregator, are found out once."""
    with Federation() as federation:
        clients = [federation.client(federation.ports[i % 3]) for i in range(4)]
        with clients[0].connect() as connection:
            task = clients[0].task(connection, replica=clients[0].seed_replica(), version=0)
        answers = []
        for port, value in zip(federation.ports[1:], (0.5, 0.25)):
            body = clients[0].update_body(task, container([value] * VALUES, encode))
            with Connection(port, clients[0].ca) as connection:
                connection.send(clients[0].put_bytes(first(task, 2), 1, body))
                answers.append(connection.receive()[0])
        check(answers == [200, 409], f"two updates of one round were answered {answers}")
        found = {row["client"]: row["anomaly"] for row in federation.first.json("ledger")}
        check(found[clients[0].client_id] == "cloned", f"the ledger says {found}")
        log = (federation.workspace.path / "aggregator.log").read_text()
        check(log.count("event=error-buffer") == 1, "it is not said once")


def aggregators(federation):
    return federation.first.json("status")["aggregators"]


def differing(federation):
    return {node["name"]: {one["setting"]: (one["value"], one["leader"]) for one in node["differs"]}
            for node in aggregators(federation)}


def test_settings(federation):
    """One that would make other rounds does not start; what else differs is named, also after it was read again."""
    other = Node(federation.first, "other", federation.postgres.url(),
                 more=("round.cohort=5", "train.batch_size=7", "server.threads=3")).start()
    check(other.process.wait(timeout=60) == 1, "it starts with another cohort, or systemd would not try again")
    said = other.said()
    check("one (" in said and "round.cohort = 5 (there 4), train.batch_size = 7 (there 32)" in said and "threads" not in said, said)
    slow = Node(federation.first, "slow", federation.postgres.url(), more=("limits.long_poll=7s",)).start().listens()
    check(differing(federation)["slow"] == {"limits.long_poll": ("7s", "1m")}, f"{differing(federation)}")
    check("event=setting-differs key=limits.long_poll here=7s there=1m" in slow.said(), slow.said())
    doctor = federation.first.verb("doctor", ok=(0, 1))
    check("limits.long_poll = 7s at slow (" in doctor, doctor)
    check("limits.long_poll = 7s there, but 1m at the leader" in federation.first.verb("status"), "not in status")
    slow.kill(signal.SIGTERM)
    federation.first.settings["round"]["deadline"] = "12h"
    federation.first.write_config()
    federation.first.process.send_signal(signal.SIGHUP)
    wait_until("that it reads others is not said", lambda: differing(federation)["two"] == {"round.deadline": ("1d", "12h")})
    check("key=round.deadline here=12h there=1d" in (federation.workspace.path / "aggregator.log").read_text(), "not in its log")
    for node in federation.nodes:
        node.process.send_signal(signal.SIGHUP)
    wait_until("they still differ", lambda: not any(differing(federation).values()))


def test_told_apart(federation):
    url = federation.postgres.url("&application_name=two")
    twin = Node(federation.first, "twin", federation.postgres.url(), more=(f"store.url={url}",)).start().listens()
    numbers = [node["node"] for node in aggregators(federation) if node["name"] == "two"]
    check(len(numbers) == 2 and len(set(numbers)) == 2 and "0" not in numbers, f"two of one name are {numbers}")
    shown = federation.first.verb("status")
    check(all(f"two ({number}) follows" in shown for number in numbers), shown)
    twin.kill(signal.SIGTERM)


class Counting(Connection):
    """Bytes of HTTP that went and came."""
    sent = received = 0

    def send(self, data):
        Counting.sent += len(data)
        super().send(data)

    def receive(self):
        wrapped, tls = self.tls, self

        class Reading:
            def recv(self, size):
                data = wrapped.recv(size)
                Counting.received += len(data)
                return data
        tls.tls = Reading()
        try:
            return super().receive()
        finally:
            tls.tls = wrapped


def test_metered(federation):
    def ledger():
        return tuple(map(int, federation.postgres.sql("SELECT coalesce(sum(up_http), 0), coalesce(sum(down_http), 0),"
                                                      " coalesce(sum(exchanges), 0) FROM meter").split("|")))

    def settled(more_than):
        """The ledger after more exchanges than these, once it has not changed for three seconds."""
        wait_until("exchanges are not in the ledger", lambda: ledger()[2] > more_than)
        seen = None
        while seen != ledger():
            seen = ledger()
            time.sleep(3)
        return seen
    before = settled(0)
    client = federation.client(federation.ports[0])
    enrolled = settled(before[2])
    count = 60
    for number in range(count):
        with Counting(federation.ports[number % 3], client.ca) as connection:
            connection.send(request_bytes("POST", "/v1/checkin", token=client.token,
                                          body=client.checkin_body(replica=client.seed_replica(), version=0)))
            connection.receive()
    up, down, exchanges = (a - b for a, b in zip(settled(enrolled[2] + count - 1), enrolled))
    check((up, down) == (Counting.sent, Counting.received),
          f"the ledger has {up} and {down} bytes, the client {Counting.sent} and {Counting.received}")
    check(enrolled[2] > before[2] and exchanges >= count, f"{exchanges} exchanges")
    totals = federation.postgres.sql("SELECT sum(up_http), sum(down_http) FROM purpose_totals").split("|")
    check([int(part) for part in totals] == list(ledger()[:2]), f"the totals are {totals}, the meter has {ledger()}")


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    with Federation() as federation:
        clients, task = test_wakes(federation)
        test_damaged(federation, clients, task)
        test_forged(federation, clients, task)
        test_enrolled(federation)
        test_revoked(federation)
        test_metered(federation)
        test_one_that_cannot_be_stored(federation)
        test_unreadable(federation)
        test_flood(federation)
        test_told_apart(federation)
        test_settings(federation)
    test_limits()
    test_clients()
    test_budgets()
    test_cloned()


main(test)
