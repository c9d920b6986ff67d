"""20,000 damaged updates (100,000 by ./tern test --all) against a live aggregator: each gets a named error, and the
database is the same afterwards, row for row."""

import hashlib
import random
import sqlite3
import struct
import subprocess

from hand_client import HandClient, container
from harness import BIN, LONG, Aggregator, Workspace, check, main
from protobuf import first, parse

COUNT = 100_000 if LONG else 20_000


def payload_of(workspace, spec, values):
    source, target = workspace.path / "in.f32", workspace.path / "out.tern"
    source.write_bytes(struct.pack(f"<{len(values)}f", *values))
    subprocess.run([BIN / "tern-codec", "encode", spec, source, target], check=True)
    return target.read_bytes()


def contents(aggregator):
    """A digest of every table but clients, for last_seen, and the meter with its sums, which count the attack."""
    digest = hashlib.sha256()
    with sqlite3.connect(f"file:{aggregator.state}/tern.db?mode=ro", uri=True) as database:
        tables = [row[0] for row in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        for table in tables:
            if table in ("clients", "meter", "purpose_totals", "round_totals", "client_totals"):
                continue
            for row in database.execute(f"SELECT * FROM {table} ORDER BY 1, 2"):
                digest.update(repr(row).encode())
    return digest.hexdigest()


def cut_short(body, rng):
    """A part of the body with up to two bytes changed: no length in it can be right."""
    out = bytearray(body[:rng.randrange(len(body) - 1)])
    for _ in range(rng.randrange(3)):
        if out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def damaged(body, rng):
    """One to four random edits; never the body itself."""
    while True:
        out = bytearray(body)
        for _ in range(rng.randint(1, 4)):
            kind = rng.randrange(4)
            at = rng.randrange(len(out))
            if kind == 0:
                out[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            elif kind == 2 and len(out) > 2:
                del out[at:at + rng.randint(1, 8)]
            else:
                out[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
            if not out:
                break
        if out and bytes(out) != body:
            return bytes(out)


def test():
    rng = random.Random(20)
    with Workspace() as workspace:
        aggregator = Aggregator(workspace, {
            "federation": {"model": "softmax:40-8", "seed": 7},
            "round": {"cohort": 2, "quorum": 2, "min_clients": 1, "deadline": "24h", "rounds": 3},
            "limits": {"requests_per_minute": 100000000},
        }).start()
        client = HandClient(aggregator.port, aggregator.ca).enroll(aggregator.join_code())
        with client.connect() as connection:
            task = client.task(connection, replica=client.seed_replica(), version=0)
        values = [rng.choice((0.0, 0.0, 0.0, 1.0, -1.0)) for _ in range(328)]
        payload = payload_of(workspace, "3lc:s=1", values)
        body = client.update_body(task, container(values, lambda _: payload))
        # An edited container may still decode: it is then simply another update. So edits are made to
        # an update of another replica, and updates of the right one are cut short.
        wrong_base = dict(task)
        wrong_base[3] = [hashlib.sha256(b"another replica").digest()[:8]]
        decodable = client.update_body(wrong_base, container(values, lambda _: payload))
        before = contents(aggregator)
        names = {}
        connection = client.connect()
        for i in range(COUNT):
            bad = damaged(decodable, rng) if i % 2 else cut_short(body, rng)
            try:
                connection.send(client.put_bytes(first(task, 2), 1, bad))
                status, headers, reply = connection.receive()
            except (ConnectionError, OSError):
                connection = client.connect()
                continue
            check(status != 200, f"damaged update {i} was accepted: {bad.hex()}")
            check(400 <= status < 500, f"damaged update {i} was answered {status}")
            name = first(parse(reply), 1, b"?").decode()
            names[name] = names.get(name, 0) + 1
        check(contents(aggregator) == before, "damaged updates changed the database")
        check("?" not in names, "an error without a name")
        check(headers.get("retry-after") == "256", f"the last refusal says {headers}")
        with client.connect() as connection:
            connection.send(client.put_bytes(first(task, 2), 1, body))
            status, _, _ = connection.receive()
        check(status == 200, f"the whole update was answered {status} after the attack")
        print(f"{COUNT} damaged updates refused: {names}")


main(test)
