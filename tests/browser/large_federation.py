"""A federation of many clients and rounds in a database: rounds that make_federation has made, with curves
as training has them, and rows of clients beside."""
import hashlib
import math
import sqlite3
import time

SECOND = 1000
DAY = 86400 * SECOND
VALUES = 172  # of the model that make_federation is given


def columns_of(database, table):
    empty = {"INTEGER": 0, "REAL": 0.0, "TEXT": "", "BLOB": bytes(32)}
    return {row[1]: empty[row[2]] for row in database.execute(f"PRAGMA table_info({table})")}


def insert(database, table, rows):
    """Adds rows; columns that are not given are zero or empty."""
    columns = columns_of(database, table)
    database.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        [list({**columns, **row}.values()) for row in rows])


def noise(i):
    """Between -1 and 1, the same each time."""
    return math.sin(i * 12.9898) * 43758.5453 % 2 - 1


def shape_rounds(database, rounds, now):
    """Losses fall, accuracies rise, a round takes half a minute."""
    for i in range(1, rounds + 1):
        part = i / rounds
        loss = 0.35 + 1.9 * math.exp(-6 * part) + 0.03 * noise(i)
        accuracy = 0.88 - 0.75 * math.exp(-7 * part) + 0.006 * noise(i + 7)
        closed = now - (rounds - i) * 30 * SECOND
        database.execute("UPDATE rounds SET mean_loss = ?, median_loss = ?, opened_ms = ?, closed_ms = ?,"
                         " local_steps = 20 WHERE round = ?", (loss, loss, closed - 21 * SECOND, closed, i))
        database.execute("UPDATE evaluations SET accuracy = ?, loss = ? WHERE version = ?",
                         (accuracy, loss * 1.1 + 0.02, i))
        up = int(10 + 4 * math.exp(-4 * part) + abs(noise(i)))
        database.execute(
            "UPDATE round_totals SET up_payload = 3 * ?, up_http = 3 * (? + 95), up_tls = 3 * (? + 140),"
            " up_wire = 3 * (? + 230), down_payload = 3 * 28, down_http = 3 * 110, down_tls = 3 * 150,"
            " down_wire = 3 * 260 WHERE round = ?", (up, up, up, up, i))


def add_clients(database, first, last, rounds, now):
    ids = range(first, last + 1)
    insert(database, "clients", ({
        "id": i, "name": f"gateway-{i:05}", "platform": "linux-arm64", "code": "k3v9q2aa",
        "token_hash": hashlib.sha256(b"%d" % i).digest(), "created_ms": now - 90 * DAY,
        "revoked": int(i % 97 == 0), "last_seen_ms": now - (i * 7919 % 86400) * SECOND,
        "steps_per_second": 20 + i % 30, "replica": (i % 50 + 1).to_bytes(4, "big") + bytes(28),
        "version": rounds - i % 9, "metered": i % 2, "budgeted": int(i % 3 == 0),
        "budget_left": 5000 * (i % 400)} for i in ids))
    insert(database, "ledger", ({
        "client": i, "generation": i, "sequence": 3, "norm": 0.2 + abs(noise(i)), "maximum": 0.1,
        "round": rounds - i % 40, "loss": 0.4, "update_bytes": 60, "decay": 1.0, "factor": 1.0,
        "reason": "kept"} for i in ids))
    insert(database, "schedule", ({
        "client": i, "local_steps": 5 + i % 20, "reason": "fixed", "updated_ms": now,
        "codec": "3lc:s=1", "policy": "fixed"} for i in ids))


def tell_figures(database, rounds):
    """What an evaluator finds beside loss and accuracy, and three clients on held-out data of their own."""
    insert(database, "metrics", ({
        "version": i, "name": "f1_macro", "client": 4, "of_evaluator": 1, "num_examples": 200,
        "value": 0.8 - 0.7 * math.exp(-7 * i / rounds) + 0.01 * noise(i)} for i in range(1, rounds + 1)))
    insert(database, "metrics", ({
        "version": i, "name": "loss", "client": client, "num_examples": 20 * client,
        "value": 0.3 + 0.1 * client + 1.9 * math.exp(-6 * i / rounds) + 0.03 * noise(i + client)}
        for i in range(rounds) for client in (1, 2, 3)))


def open_round(database, rounds, now, members):
    last = dict(zip(columns_of(database, "rounds"),
                    database.execute("SELECT * FROM rounds WHERE round = ?", (rounds,)).fetchone()))
    last.update(round=rounds + 1, state=0, base_version=rounds, target=40, quorum=20, applied=0,
                opened_ms=now - 60 * SECOND, deadline_ms=now + 5000 * SECOND, closed_ms=0, mean_loss=0.0,
                median_loss=0.0, variance=0.0, local_steps=0.0)
    insert(database, "rounds", [last])
    insert(database, "assignments", ({"round": rounds + 1, "client": i, "invited_ms": now - 60 * SECOND}
                                     for i in members))


def add_codes(database, now):
    insert(database, "codes", ({
        "hash": bytes([i]) * 32, "label": label, "uses_left": uses, "created_ms": now - i * DAY,
        "expires_ms": now + left} for i, (label, uses, left) in enumerate([
            ("greenhouse <b>north</b>", 12, 3 * DAY), ("workshop", 0, DAY), ("trial", 5, -DAY)], 1)))


def fill(path, clients, rounds):
    """The database must have been made by make_federation with so many rounds."""
    database = sqlite3.connect(path)
    now = int(time.time() * SECOND)
    made = database.execute("SELECT max(id) FROM clients").fetchone()[0]
    with database:
        database.execute("UPDATE clients SET created_ms = ?, last_seen_ms = ?", (now - 90 * DAY, now - 40 * SECOND))
        shape_rounds(database, rounds, now - 120 * SECOND)
        tell_figures(database, rounds)
        add_clients(database, made + 1, clients, rounds, now)
        open_round(database, rounds, now, range(made + 1, made + 41))
        add_codes(database, now)
    database.close()
