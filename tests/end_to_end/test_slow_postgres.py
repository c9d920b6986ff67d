#!/usr/bin/python3
"""PostgreSQL is far away: a round trip takes 50 ms, half a second, then 5 s, while more clients check in than it can
serve. The service refuses a check-in that arrives while a batch hangs by 503 with Retry-After, before the batch's round
trip is over; only the batch's own clients wait. The service stays alive and takes no more memory, and goes on as before
once the database is near again. No update is missing or counted twice."""

import contextlib
import signal
import time

from conservation import Fleet, check_client, model, newest_version
from far_postgres import FAR, Door, Link, Watcher, check_health, inside
from harness import PATIENCE, SANITIZED, Aggregator, Workspace, check, main, skip
from nodes import Node, cluster, port_to_keep, wait_until

CLIENTS = 3
CROWD, LATE = 16, 8
ANSWERS = 3  # that each client of a crowd gets while trips take long
GIVES_UP = 59  # seconds, of http_by_hand
QUEUE = 16
ROUNDS = 2000
GROWS_KIB = 32 * 1024
TRIPS = (0.05, 0.5, 5.0)  # seconds
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


def wait_until_hung(service, prober):
    """Returns once the service refuses a check-in because its batch hangs. Each probe has a connection of its own: one that
    arrives earlier waits for the batch."""
    def refused():
        with contextlib.suppress(OSError), prober.connect() as connection:
            connection.tls.settimeout(1)
            return b"does not answer" in connection.request("POST", "/v1/checkin", token=prober.token,
                                                            body=prober.checkin_body())[2]
        return False

    with inside(service.link.near):
        wait_until("the service never refused a check-in", refused)


def be_slow(service, crowd, late, prober, trip):
    """late: the clients that arrive, where a trip takes seconds, when a batch hangs."""
    service.link.delay(trip)
    crowd.start()
    hangs = trip >= 5
    if hangs:
        wait_until_hung(service, prober)
    late.start()
    for clients, count in ((late, LATE),) if hangs else ((crowd, CROWD), (late, LATE)):
        wait_until("no answers", lambda: len(clients.checkins) >= ANSWERS * count)
    meanwhile = list(late.checkins)
    service.link.delay(0)
    late.stop()
    crowd.stop()
    healthy = check_health(crowd.health + late.health, max(TRIPS) * 1e3)
    took = service.expect_progress(f"a trip took {trip} s")
    check(service.node.process.poll() is None, "it ended")
    hung, refused = check_answers(crowd.checkins, trip)
    late_hung, _ = check_answers(late.checkins, trip)
    quick = sum(answer.status == 503 and answer.ms < trip * 1e3 for answer in meanwhile)
    if hangs:
        check(quick > len(meanwhile) // 2, f"a trip of {trip} s: {quick} of {meanwhile} were refused within it")
    print(f"a trip of {trip} s: {len(crowd.checkins)} check-ins of a crowd of {CROWD}, {len(refused)} refused, {len(hung)} "
          f"given up; of {len(meanwhile)} later ones {quick} refused within it, {len(late_hung)} given up; /healthz "
          f"{healthy:.0f} ms at most; two rounds {took:.1f} s after it was over; {service.resident_kib()} KiB", flush=True)


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    link = Link()
    with cluster.Cluster(FAR) as postgres, Workspace() as workspace:
        service = Service(workspace, postgres, link)
        crowd, late, prober = (Watcher(link.near, service.node.port, service.ca).enroll(service.join_code(count), count)
                               for count in (CROWD, LATE, 1))
        service.port = Door([(link.near, service.node.port)], 1, cut_probability=0).port
        fleet = Fleet(workspace, service, CLIENTS)
        fleet.start_all()
        service.expect_progress("nothing")
        before = service.resident_kib()
        for trip in TRIPS:
            be_slow(service, crowd, late, prober.clients[0], trip)
        grown = service.resident_kib() - before
        check(SANITIZED or grown < GROWS_KIB, f"it took {grown} KiB more")
        fleet.settle_all()
        service.node.kill(signal.SIGTERM)
        service.first.verb("verify")
        counts = [check_client(fleet, index, postgres.url()) for index in range(CLIENTS)]
        print(f"it took {grown} KiB more; {sum(encoded for encoded, _, _ in counts)} updates encoded, all accounted for")


main(test)
