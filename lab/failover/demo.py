"""A federation of an aggregator with two standbys on one database of PostgreSQL behind nginx, while leaders are killed.

    demo.py CONFIG FOLDER RESULTS --programs DIR [--set section.key=value]...

FOLDER has server.pem, server.key and ca.pem, and gets logs, the aggregators' state, and the final model as global.f32;
RESULTS becomes the fleet's results as JSON. In rounds 3 and 9 the aggregator that leads is killed (SIGKILL), in round 6
PostgreSQL (an immediate shutdown, as after a crash); each is then restarted. Prints the outcome. Exits with 1 if an
acknowledged update is lost, a round lacks an update, nothing was killed or `verify` finds a fault. Stops all programs
that it started, also when a signal ends it.
"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "lab"), str(SOURCE / "tests/postgres")]
import cluster  # noqa: E402

from failover.front import Front  # noqa: E402
from failover.nodes import Fleet, Site  # noqa: E402
from failover.programs import Programs, check, main_of_demo, wait_until  # noqa: E402

NAMES = ("one", "two", "three")
LOOKS_S = 0.1      # between two looks at who leads, and how far a round is
PATIENCE_S = 60    # for an aggregator to lead, or to be there again


class Story:
    """Follows leader and rounds, and kills programs at the planned rounds."""

    def __init__(self, site, clients):
        self.site, self.clients = site, clients
        self.kills = [(3, self._kill_leader), (6, self._kill_postgres), (9, self._kill_leader)]
        self.round = 0
        self.leader = None
        self.led = []       # (round, name)
        self.seen = time.monotonic()  # when somebody was seen to lead last
        self.dead = None    # a node that is to be started again once another one leads

    def say(self, text):
        print(f"   round {self.round}: {text}", flush=True)

    def look(self):
        status = self.site.status()
        now = time.monotonic()
        if status is None:
            return
        self.round = status["rounds_committed"] + 1
        leader = next((node["name"] for node in status["aggregators"] if node["leads"]), None)
        if leader is not None and leader != self.leader:
            self.say(f"{leader} leads" + (f", {now - self.seen:.1f} s later" if self.leader is not None else ""))
            if not self.led or self.led[-1][1] != leader:
                self.led.append((self.round, leader))
        if leader is not None:
            self.leader, self.seen = leader, now
        self._revive(leader)
        under_way = status["updates"] - status["rounds_committed"] * self.clients
        if self.kills and leader is not None and self.dead is None and (
                self.round > self.kills[0][0] or (self.round == self.kills[0][0] and under_way * 5 >= self.clients)):
            self.kills.pop(0)[1](under_way)

    def _revive(self, leader):
        """Restarts a killed program once the others work without it, as systemd would."""
        if self.dead is not None and leader not in (None, self.dead.name):
            self.dead.start()
            self.say(f"{self.dead.name} is started again")
            self.dead = None

    def _look_after_nodes(self):
        for node in self.site.nodes.values():
            if node is self.dead or node.runs():
                continue
            check(node.is_displaced(), f"the aggregator {node.name} has ended by itself:\n{node.last_words()}")
            self.say(f"{node.name} has ended, because another one leads; it is started again")
            node.start()

    def _kill_leader(self, under_way):
        node = self.site.nodes[self.leader]
        self.say(f"SIGKILL for {node.name} (process {node.process.pid}), which leads; {under_way} of {self.clients} updates "
                 "are there")
        self.dead = node
        self.seen = time.monotonic()
        node.kill()

    def _kill_postgres(self, under_way):
        self.say(f"immediate shutdown of PostgreSQL; {under_way} of {self.clients} updates are there")
        self.site.postgres.stop(signal.SIGQUIT)
        self.seen, self.leader = time.monotonic(), "nobody"
        time.sleep(1)
        self.site.postgres.start()
        self.say("PostgreSQL is started again, and recovers")

    def run_with(self, fleet):
        while fleet.process.poll() is None:
            self.look()
            self._look_after_nodes()
            time.sleep(LOOKS_S)
        check(fleet.process.returncode == 0, f"tern-fleet ended with {fleet.process.returncode}:\n{fleet.why()}")
        check(not self.kills, f"the rounds were over before {len(self.kills)} of the three kills")


def start_all(site):
    print("== waiting until one aggregator leads and the others stand by", flush=True)
    for node in site.nodes.values():
        node.start()

    def all_are_there():
        for node in site.nodes.values():
            check(node.runs(), f"the aggregator {node.name} has ended:\n{node.last_words()}")
        nodes = (site.status() or {"aggregators": []})["aggregators"]
        return len(nodes) == len(NAMES) and any(node["leads"] for node in nodes)

    wait_until("no aggregator leads", all_are_there, PATIENCE_S)


def check_nothing_is_lost(site, fleet, clients):
    rounds = json.loads(site.any.verb("rounds", "--json"))
    short = [row["round"] for row in rounds if row["state"] != "committed" or row["applied"] != clients]
    check(not short, f"rounds {short} are not committed with {clients} updates")
    stored = {tuple(map(int, line.split("|")))
              for line in site.postgres.sql("SELECT client, round FROM updates").splitlines()}
    acknowledged = fleet.acknowledged()
    lost = acknowledged - stored
    check(not lost, f"{len(lost)} updates were acknowledged and are lost, (client, round): {sorted(lost)[:10]}")
    return len(acknowledged), len(stored)


def tell(story, front, counts):
    acknowledged, stored = counts
    sent, size = front.downloads()
    print("\nwho led:          " + ", ".join(f"{name} from round {round_}" for round_, name in story.led))
    print(f"downloads:        {sum(sent.values())}, of which nginx had {sent['HIT']} "
          f"({size['HIT'] / 1e6:.1f} of {sum(size.values()) / 1e6:.1f} MB)")
    print(f"updates:          {acknowledged} were acknowledged, {stored} are stored: none is lost", flush=True)


def federate(arguments, postgres, programs):
    folder = arguments.folder.resolve()
    # Rounds are slow enough for a kill in the middle of one; the pause does not change the model.
    overrides = [*arguments.overrides, "round.min_interval=600ms"]
    site = Site(programs, postgres, arguments.programs, folder, arguments.config, overrides, NAMES)
    site.any.verb("init")
    start_all(site)
    front = Front(site, arguments.programs.parent)
    fleet = Fleet(site, front.port, arguments.results)
    clients = clients_of(arguments)
    story = Story(site, clients)
    story.run_with(fleet)
    counts = check_nothing_is_lost(site, fleet, clients)
    model = folder / "global.f32"
    site.any.verb("export", "--global", model)
    fleet.evaluate(model)
    for node in site.nodes.values():
        if node.runs():
            programs.end(node.process)
    print(site.any.verb("verify"), end="")
    tell(story, front, counts)


def clients_of(arguments):
    """Returns the fleet's number of clients: the last override, else the file's."""
    given = [one.partition("=")[2] for one in arguments.overrides if one.startswith("fleet.clients=")]
    written = re.findall(r"^clients *= *(\d+)", arguments.config.read_text(encoding="utf-8"), re.MULTILINE)
    return int((given or written)[-1])


def run(arguments):
    check(cluster.folder_of_programs() is not None, "there is no PostgreSQL: install postgresql")
    with cluster.Cluster() as postgres, Programs() as programs:
        federate(arguments, postgres, programs)


if __name__ == "__main__":
    sys.exit(main_of_demo(__doc__, run))
