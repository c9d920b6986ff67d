#!/usr/bin/python3
"""PostgreSQL is far away: each trip takes 50 ms, half a second, then 5 s, while a crowd checks in faster than that can
be served. Who comes while a batch takes long is answered 503 with Retry-After at once; nobody hangs but in that batch;
the service is alive all the while and takes no more memory; and all is as before once the database is near again. No
update is missing or counted twice."""

import signal
import time

from conservation import Fleet, check_client, model, newest_version
from far_postgres import FAR, Door, Link, Watcher, check_health
from harness import PATIENCE, SANITIZED, Aggregator, Workspace, check, main, skip, within
from nodes import Node, cluster, port_to_keep, wait_until

CLIENTS = 3
CROWD, LATE = 16, 8
COMES_LATE = 6  # seconds; the service has been at a batch for long after 5
HEALTHY_MS = within(2000, 10000)
AT_ONCE_MS = within(1000, 4000)  # a trip of 5 s takes longer
GIVES_UP = 59  # seconds, of http_by_hand
QUEUE = 16
ROUNDS = 2000
GROWS_KIB = 32 * 1024
# Seconds of a trip, and for how long.
TRIPS = ((0.05, 6), (0.5, 6), (5.0, 20))
SETTINGS = {
    "federation": {"model": model(ROUNDS), "seed": 5},
    "round": {"cohort": 2, "over_selection": 1.0, "quorum": 1, "min_clients": CLIENTS, "deadline": "5s",
              "rounds": ROUNDS, "come_back_min": "20ms", "come_back_max": "500ms"},
    "codec": {"error_feedback": "keep", "codec": "3lc:s=1.5"},
    "limits": {"requests_per_minute": 0, "connections_per_address": 5000, "queue": QUEUE},
    "log": {"requests": "none"},
}


class Service:
    address = "127.0.0.1"

    def __init__(self, workspace, postgres, link):
        self.postgres, self.link = postgres, link
        self.first = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url()}})
        self.node = Node(self.first, "near", postgres.far_url(), port_to_keep(), link.prefix)
        self.node.start()
        self.node.leads()
        self.ca, self.join_code = self.first.ca, self.first.join_code

    def resident_kib(self):
        for line in open(f"/proc/{self.node.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        return 0

    def expect_progress(self, after, versions=2, seconds=PATIENCE):
        version, began = newest_version(self.postgres), time.monotonic()
        wait_until(f"no round for {seconds} s: {after}", lambda: newest_version(self.postgres) >= version + versions, seconds)
        return time.monotonic() - began


def check_answers(answers, trip):
    """That each was served, or was told when to come again; or gave up, with the batch it was in under way: once each."""
    hung = [answer for answer in answers if answer.status is None]
    check(all(answer.ms > GIVES_UP * 1e3 for answer in hung) and len(hung) <= CROWD, f"a trip of {trip} s: {hung}")
    refused = [answer for answer in answers if answer.status == 503]
    check(len(hung) + len(refused) + sum(answer.status == 200 for answer in answers) == len(answers), f"{answers}")
    check(all(int(answer.headers.get("retry-after", 0)) >= 1 for answer in refused), "a 503 does not say when to come")
    return hung, refused


def be_slow(service, crowd, late, trip, seconds):
    """late: those who come when the service has been at a batch for seconds."""
    service.link.delay(trip)
    crowd.start()
    time.sleep(COMES_LATE)
    late.start()
    time.sleep(seconds)
    late.stop()
    service.link.delay(0)
    crowd.stop()
    healthy = check_health(crowd.health + late.health, HEALTHY_MS)
    took = service.expect_progress(f"a trip took {trip} s")
    check(service.node.process.poll() is None, "it ended")
    hung, refused = check_answers(crowd.checkins, trip)
    late_hung, late_refused = check_answers(late.checkins, trip)
    quick = sum(answer.ms < AT_ONCE_MS for answer in late_refused)
    if trip >= 5:
        check(quick > len(late.checkins) // 2, f"a trip of {trip} s: {quick} of {late.checkins} were refused at once")
    print(f"a trip of {trip} s: {len(crowd.checkins)} check-ins of a crowd of {CROWD}, {len(refused)} refused, {len(hung)} "
          f"given up; of {len(late.checkins)} later ones {quick} refused at once, {len(late_hung)} given up; /healthz "
          f"{healthy:.0f} ms at most; two rounds {took:.1f} s after it was over; {service.resident_kib()} KiB", flush=True)


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    link = Link()
    with cluster.Cluster(FAR) as postgres, Workspace() as workspace:
        service = Service(workspace, postgres, link)
        crowd, late = (Watcher(link.near, service.node.port, service.ca).enroll(service.join_code(count), count)
                       for count in (CROWD, LATE))
        service.port = Door([(link.near, service.node.port)], 1, cut_probability=0).port
        fleet = Fleet(workspace, service, CLIENTS)
        fleet.start_all()
        service.expect_progress("nothing")
        before = service.resident_kib()
        for trip, seconds in TRIPS:
            be_slow(service, crowd, late, trip, seconds)
        grown = service.resident_kib() - before
        check(SANITIZED or grown < GROWS_KIB, f"it took {grown} KiB more")
        fleet.settle_all()
        service.node.kill(signal.SIGTERM)
        service.first.verb("verify")
        counts = [check_client(fleet, index, postgres.url()) for index in range(CLIENTS)]
        print(f"it took {grown} KiB more; {sum(encoded for encoded, _, _ in counts)} updates encoded, all accounted for")


main(test)
