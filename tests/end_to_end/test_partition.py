#!/usr/bin/python3
"""The aggregator that leads is cut off from PostgreSQL, packet by packet, while clients reach it: it answers 503 with
Retry-After to all that needs the database, soon, and is alive all the while. Alone, it goes on by itself once the link
is back. Where another one stands by, PostgreSQL gives the first up, the other leads within ten seconds, and the first
ends with the reason once it hears of it, and stands by. Nothing is decided twice: no update is missing or counted twice,
and the history replays. One that stands by and is cut off waits until the link is back."""

import signal
import time

from conservation import Fleet, check_client, model, newest_version
from far_postgres import FAR, Door, Link, Watcher, check_health
from harness import PATIENCE, Aggregator, Workspace, check, main, skip, within
from nodes import Node, cluster, port_to_keep, wait_until

CLIENTS = 3
ROUNDS = 4000
SEED = 20264
# Seconds. The server gives a connection up after 8 to 10 s. What is not answered at all takes 60 s and more.
TAKES_OVER = within(12)
ANSWERS = within(16, 45)
HEALTHY_MS = within(2000, 10000)
SETTINGS = {
    "federation": {"model": model(ROUNDS), "seed": 5},
    "round": {"cohort": 2, "over_selection": 1.0, "quorum": 1, "min_clients": CLIENTS, "deadline": "1500ms",
              "rounds": ROUNDS, "come_back_min": "20ms", "come_back_max": "500ms"},
    "codec": {"error_feedback": "keep", "codec": "3lc:s=1.5"},
    "limits": {"requests_per_minute": 0, "connections_per_address": 5000},
    "log": {"requests": "none"},
}


class Service:
    """The first node is at the near end of the link, the second where PostgreSQL is."""

    def __init__(self, workspace, postgres, link):
        self.postgres, self.link = postgres, link
        self.first = Aggregator(workspace, {**SETTINGS, "store": {"url": postgres.url()}})
        self.near = Node(self.first, "near", postgres.far_url(), port_to_keep(), link.prefix)
        self.far = Node(self.first, "far", postgres.far_url(), port_to_keep())
        self.near.start()
        self.near.leads()
        self.address, self.ca, self.join_code = "127.0.0.1", self.first.ca, self.first.join_code
        self.ways = [(link.near, self.near.port), (link.far, self.far.port)]
        self.door = Door(self.ways, SEED, cut_probability=0)
        self.port = self.door.port
        self.fleet = Fleet(workspace, self, CLIENTS)
        self.fleet.start_all()

    def watch(self):
        return Watcher(self.link.near, self.near.port, self.ca).enroll(self.join_code())

    def expect_progress(self, after, seconds=PATIENCE):
        version = newest_version(self.postgres)
        began = time.monotonic()
        wait_until(f"no round for {seconds} s after {after}", lambda: newest_version(self.postgres) > version + 1,
                   seconds)
        return time.monotonic() - began


def check_refused(answers, since):
    """What was asked after `since` was answered 503 in time, when to come again, and on another connection."""
    asked = [answer for answer in answers if answer.began > since]
    check(asked, "nothing was answered")
    wrong = [answer for answer in asked if answer.status != 503 or int(answer.headers.get("retry-after", 0)) < 1 or
             answer.headers.get("connection") != "close"]
    check(not wrong, f"without its database it answered {wrong}")
    slowest = max(answer.ms for answer in asked)
    check(slowest < ANSWERS * 1e3, f"a check-in hung for {slowest:.0f} ms")
    return slowest


def cut_off_alone(service):
    """With nobody to lead in its place, for longer than PostgreSQL waits."""
    watcher = service.watch()
    service.link.cut()
    began = time.monotonic()
    watcher.start()
    time.sleep(25)
    watcher.stop()
    check(any(answer.status == 503 for answer in watcher.ready), f"/readyz: {watcher.ready}")
    slowest = check_refused(watcher.checkins, began)
    check_health(watcher.health, HEALTHY_MS)
    service.link.mend()
    took = service.expect_progress("it was cut off alone")
    check(service.near.process.poll() is None, "it ended for want of its database")
    quick = sorted(answer.ms for answer in watcher.checkins)
    print(f"cut off alone: {len(quick)} check-ins were answered 503, after {quick[len(quick) // 2]:.0f} ms by half and "
          f"{slowest / 1e3:.1f} s at most; rounds went on {took:.1f} s after the link was back", flush=True)


def cut_off_briefly(service):
    """Shorter than anybody waits."""
    for seconds in (0.5, 3):
        service.link.cut()
        time.sleep(seconds)
        service.link.mend()
        service.expect_progress(f"{seconds} s without a link")
    check("event=displaced" not in service.near.said(), "it was displaced")


def cut_off_with_another(service):
    """Returns what it said."""
    service.far.start()
    service.far.waits()
    service.expect_progress("another one stands by")
    watcher = service.watch()
    service.link.cut()
    began = time.monotonic()
    watcher.start()
    service.far.leads(TAKES_OVER)
    took = time.monotonic() - began
    service.door.go_to(service.ways[1:]) # else who stays connected to the first is told to come again and again
    service.expect_progress("another one leads")
    watcher.stop()
    slowest = check_refused(watcher.checkins, began)
    check_health(watcher.health, HEALTHY_MS)
    service.link.mend()
    code = service.near.process.wait(timeout=PATIENCE)
    check(code == 1 and "event=displaced" in service.near.said(), f"it ended by {code}")
    service.door.go_to(service.ways)
    print(f"cut off with another: that led after {took:.1f} s; check-ins here took {slowest / 1e3:.1f} s at most",
          flush=True)


def cut_off_standing_by(service):
    service.near.start()
    service.near.waits()
    service.link.cut()
    wait_until("it does not say that its database is away", lambda: "event=store-unreachable" in service.near.said())
    service.expect_progress("one that stands by was cut off")
    check(service.near.process.poll() is None, "it ended for want of its database")
    service.link.mend()
    wait_until("it does not stand by again", lambda: "event=store-reached" in service.near.said())
    service.far.kill(signal.SIGTERM)
    service.near.leads()
    service.expect_progress("the other one ended")


def test():
    if cluster.folder_of_programs() is None:
        skip("there is no PostgreSQL here")
    link = Link()
    with cluster.Cluster(FAR) as postgres, Workspace() as workspace:
        service = Service(workspace, postgres, link)
        service.expect_progress("nothing")
        cut_off_briefly(service)
        cut_off_alone(service)
        cut_off_with_another(service)
        cut_off_standing_by(service)
        service.fleet.settle_all()
        service.near.kill(signal.SIGTERM)
        service.first.verb("verify")
        counts = [check_client(service.fleet, index, postgres.url()) for index in range(CLIENTS)]
        print(f"{sum(encoded for encoded, _, _ in counts)} updates encoded, all accounted for")


main(test)
