"""What a participation moves beyond its tensors, from the meter of an aggregator whose federation has ended, as JSON. Each
figure is a mean per update of the clients that train, both ways. Figures of a participation leave out the first rounds,
in which clients enrol and fetch snapshots, and the last, in which they learn of the end. Figures by purpose are of the
whole history, for which alone the meter keeps purposes."""
import json
import sqlite3
import sys

SKIPPED = 5
EXCHANGES = ("checkin", "download", "upload")
PURPOSES = ("handshake", "enroll", *EXCHANGES)
LAYERS = ("http", "tls", "wire")
SUMS = ", ".join(f"sum(up_{layer} + down_{layer} - up_payload - down_payload)" for layer in LAYERS)


def means(db, count, query, *arguments):
    """Returns the mean exchanges, and bytes at each layer, per update."""
    row = db.execute(f"select sum(exchanges), {SUMS} {query}", arguments).fetchone()
    return [(value or 0) / count for value in row]


def figures(database):
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    rounds = (SKIPPED, db.execute("select max(round) - 1 from updates").fetchone()[0])
    every = db.execute("select count(*) from updates").fetchone()[0]
    updates = db.execute("select count(*) from updates where round between ? and ?", rounds).fetchone()[0]
    result = {"participations": updates}
    for name in EXCHANGES:
        exchanges, *layers = means(db, every, "from purpose_totals where trains and not outside and purpose = ?",
                                   PURPOSES.index(name))
        result[f"{name}_exchanges"] = round(exchanges, 2)
        for layer, bytes_ in zip(LAYERS, layers):
            result[f"{name}_{layer}_beyond_payload"] = round(bytes_)
    exchanges, *layers = means(db, updates, "from meter where round between ? and ? and client not in"
                               " (select id from clients where evaluator)", *rounds)
    result["participation_exchanges"] = round(exchanges, 2)
    for layer, bytes_ in zip(LAYERS, layers):
        result[f"participation_{layer}_beyond_payload"] = round(bytes_)
    return result


if __name__ == "__main__":
    print(json.dumps(figures(sys.argv[1]), indent=1))
