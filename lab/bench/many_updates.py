#!/usr/bin/python3
"""What becomes of a database of PostgreSQL, and of how fast it takes updates, over a million of them.

usage: many_updates.py [UPDATES [CLIENTS [WORKERS]]]

A crowd of clients (bench-crowd) sends updates of 200 bytes to one aggregator until so many are stored. A line of JSON every 20 s:
updates a second since the line before, processor time of one, rows that are dead, size of the database. At the end its tables
(size, size of indexes, rows, dead rows, inserts, updates, those of them that touched no index, deletes, runs of autovacuum) and its indexes (size, scans).
"""
import json
import signal
import sys
import time

from small_updates import Aggregator, Workspace, check, cluster, cpu_s, server_cpu_s, settings, start_crowd

LOOK_S = 20
TABLES = """SELECT relname, pg_size_pretty(pg_relation_size(relid)), pg_size_pretty(pg_indexes_size(relid)), n_live_tup, n_dead_tup,
n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, autovacuum_count FROM pg_stat_user_tables ORDER BY pg_total_relation_size(relid) DESC"""
INDEXES = """SELECT relname, indexrelname, pg_size_pretty(pg_relation_size(indexrelid)), idx_scan FROM pg_stat_user_indexes
ORDER BY pg_relation_size(indexrelid) DESC"""


def main(updates=1000000, clients=960, workers=24):
    with cluster.Cluster() as postgres, Workspace() as workspace:
        first = Aggregator(workspace, settings(postgres.url("&application_name=one"), clients)).start()
        crowd = start_crowd(workspace, first, clients, workers)

        def now():
            stored = int(postgres.sql("SELECT coalesce(max(id), 0) FROM updates"))
            return stored, time.monotonic(), cpu_s(first.process.pid), server_cpu_s(postgres)
        before = now()
        while before[0] < updates:
            time.sleep(LOOK_S)
            after = now()
            count, took, aggregator, server = (new - old for new, old in zip(after, before))
            check(count > 0, f"no update for {LOOK_S} s")
            print(json.dumps({
                "updates": after[0], "updates_per_second": round(count / took), "aggregator_ms": round(1000 * aggregator / count, 3),
                "postgresql_ms": round(1000 * server / count, 3),
                "dead_rows": int(postgres.sql("SELECT sum(n_dead_tup) FROM pg_stat_user_tables")),
                "bytes": int(postgres.sql("SELECT pg_database_size('tern')"))}), flush=True)
            before = after
        print(postgres.sql(TABLES), postgres.sql(INDEXES), sep="\n\n")
        crowd.send_signal(signal.SIGINT)
        crowd.communicate()


main(*map(int, sys.argv[1:]))
