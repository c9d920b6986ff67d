"""What a participation moves beyond its tensors: bytes by purpose from the meter of an aggregator whose
federation has ended, as JSON. Each figure is a mean per update of the clients that train, both ways, without
the first rounds, which first snapshots and enrolments are in, and the last, in which all are told the end."""
import json
import sqlite3
import sys

SKIPPED = 5
EXCHANGES = ("checkin", "download", "upload")
PURPOSES = ("handshake", "enroll", *EXCHANGES)
LAYERS = ("http", "tls", "wire")


def beyond_payload(database):
    """Returns the number of updates, and per purpose the mean exchanges and bytes at each layer."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    last = db.execute("select max(round) - 1 from updates").fetchone()[0]
    rounds = (SKIPPED, last)
    updates = db.execute("select count(*) from updates where round between ? and ?", rounds).fetchone()[0]
    sums = ", ".join(f"sum(up_{layer} + down_{layer} - up_payload - down_payload)" for layer in LAYERS)
    rows = db.execute(
        f"select purpose, sum(exchanges), {sums} from meter where round between ? and ? and client not in"
        " (select id from clients where evaluator) group by purpose", rounds).fetchall()
    found = {PURPOSES[row[0]]: [value / updates for value in row[1:]] for row in rows}
    return updates, {name: found.get(name, [0] * (1 + len(LAYERS))) for name in EXCHANGES}


def figures(database):
    updates, found = beyond_payload(database)
    result = {"participations": updates}
    for name in EXCHANGES:
        exchanges, *layers = found[name]
        result[f"{name}_exchanges"] = round(exchanges, 2)
        for layer, bytes_ in zip(LAYERS, layers):
            result[f"{name}_{layer}_beyond_payload"] = round(bytes_)
    for at, layer in enumerate(LAYERS):
        total = sum(found[name][1 + at] for name in EXCHANGES)
        result[f"participation_{layer}_beyond_payload"] = round(total)
    return result


if __name__ == "__main__":
    print(json.dumps(figures(sys.argv[1]), indent=1))
