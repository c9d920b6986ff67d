"""What a federation has stored, for comparisons bit by bit: of machines (test_federation.py) and of Java's client."""

import sqlite3

import protobuf

TRAIN_MS, ERROR, GENERATION = 5, 6, 1  # fields of Update, and of the ErrorFacts in it


def comparable(body):
    """An Update without what differs by design: how long training took, and the random number that
    names an error buffer."""
    fields = protobuf.parse(body)
    fields.pop(TRAIN_MS, None)  # 0 stands in no message
    fields[ERROR] = {key: value for key, value in protobuf.parse(fields[ERROR][0]).items()
                     if key != GENERATION}
    return fields


def history(aggregator):
    """What was uploaded, by round and client, and the hashes of every version."""
    with sqlite3.connect(aggregator.state / "tern.db") as reader:
        updates = [(number, client, comparable(body)) for number, client, body in reader.execute(
            "SELECT round, client, body FROM updates JOIN update_bodies USING (id) "
            "ORDER BY round, client")]
        versions = reader.execute("SELECT version, replica, model_sha256 FROM versions "
                                  "ORDER BY version").fetchall()
    return updates, versions
