"""What an update costs with the database in SQLite and in PostgreSQL: stores.py [UPDATES] [TURNS] [PROGRAM...]

A crowd of 100 clients (bench-crowd, 20 threads) sends UPDATES durable updates of 200 bytes to an aggregator, once with
each database in each turn; a cluster with fsync runs on the same machine and is reached by a socket. PROGRAM: builds of
tern-aggregator that take turns; none: that of the build folder. A line of JSON for each: updates a second, processor
time of an update in the aggregator and in the server's connection, transactions, and how often that connection waited
for the aggregator, which is what trips to the server cost beyond processor time.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/end_to_end"), str(ROOT / "tests/postgres")]
import cluster  # noqa: E402
import harness  # noqa: E402

CLIENTS, WORKERS = 100, 20


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def waits(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def settings(url, updates):
    return {"federation": {"model": "softmax:64-10", "seed": 1}, "store": {"url": url}, "server": {"threads": 2},
            "codec": {"codec": "3lc:s=1"},
            "round": {"cohort": CLIENTS, "min_clients": 2, "deadline": "30s", "rounds": 0, "come_back_min": "10ms",
                      "eligible_within": "5s"},
            "limits": {"requests_per_minute": 0, "enrollments_per_minute": 0, "connections_per_address": 10000,
                       "connections": 10000}}


def service_connection(postgres):
    """The connection that writes is the one that holds the lock of a service."""
    found = postgres.sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid = 2")
    return int(found)


def measure(aggregator, updates, postgres=None):
    code = aggregator.join_code(uses=CLIENTS)
    crowd = subprocess.Popen([harness.BIN.parent / "bench-bin/bench-crowd", aggregator.address, str(aggregator.port),
                              aggregator.ca, code, f"enrolled={CLIENTS}", f"connected={CLIENTS}", f"workers={WORKERS}",
                              "ms=600000", f"updates={updates}", "bytes=200"], stdout=subprocess.PIPE, text=True)
    aggregator.workspace.processes.append(crowd)
    harness.check(crowd.stdout.readline() == "connected\n", "the crowd did not come")
    pid = aggregator.process.pid
    backend = service_connection(postgres) if postgres else None
    before = processor_seconds(pid), backend and processor_seconds(backend), backend and waits(backend)
    committed = postgres and int(postgres.sql("SELECT commits FROM schema_version"))
    found = json.loads(crowd.stdout.read())
    harness.check(crowd.wait() == 0 and found["refused"] == 0, f"the crowd failed: {found}")
    updates = found["updates"]
    result = {"updates_per_second": round(updates / found["seconds"]),
              "aggregator_ms": round((processor_seconds(pid) - before[0]) / updates * 1e3, 3),
              "update_p50_ms": found["update_p50_ms"], "update_p99_ms": found["update_p99_ms"]}
    if postgres:
        committed = int(postgres.sql("SELECT commits FROM schema_version")) - committed
        result.update({"server_ms": round((processor_seconds(backend) - before[1]) / updates * 1e3, 3),
                       "updates_per_transaction": round(updates / committed, 1),
                       "waits_per_transaction": round((waits(backend) - before[2]) / committed, 2),
                       "waits_per_update": round((waits(backend) - before[2]) / updates, 2)})
    return result


def turn(program, updates, postgres):
    url = ""
    if postgres:
        postgres.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        url = postgres.url()
    harness.BIN = program.parent
    with harness.Workspace() as workspace:
        aggregator = harness.Aggregator(workspace, settings(url, updates)).start()
        harness.BIN = ROOT / "build/bin" if not (program.parent.parent / "bench-bin").exists() else program.parent
        return measure(aggregator, updates, postgres)


def main(updates="10000", turns="3", *programs):
    programs = [pathlib.Path(program) for program in programs] or [harness.BIN / "tern-aggregator"]
    with cluster.Cluster() as postgres:
        for number in range(int(turns)):
            for program in programs:
                for store, place in (("sqlite", None), ("postgresql", postgres)):
                    found = turn(program, int(updates), place)
                    print(json.dumps({"turn": number + 1, "program": str(program), "store": store, **found}), flush=True)


main(*sys.argv[1:])
