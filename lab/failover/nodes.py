"""Aggregators on one database of PostgreSQL or one on SQLite, each with a port and a state directory of its own, and a fleet."""
import json
import signal
import subprocess
import threading

from comparison.settings import FLEET_READS_TOO, NOT_OF_AGGREGATOR, OF_FLEET
from failover.programs import free_port, last_lines, must_run, run


class Node:
    """An aggregator that can be killed and restarted."""

    def __init__(self, site, name):
        self.site = site
        self.name = name
        self.port = free_port()
        self.state = site.folder / name
        self.state.mkdir()
        self.process = None
        self.begin = 0  # of its log, since it was started last

    def options(self):
        shared = []
        if self.site.postgres is not None:
            url = self.site.postgres.url(f"&application_name={self.name}")
            shared = ["server.cache_from=127.0.0.1", f"store.url={url}"]
        return ["--config", self.site.config, *sets_of_aggregator(self.site.overrides), "--state", self.state,
                *sets("server.address=127.0.0.1", f"server.port={self.port}", *shared,
                      f"server.certificate={self.site.folder}/server.pem",
                      f"server.private_key={self.site.folder}/server.key",
                      f"admin.address=unix:{self.state}/admin.sock")]

    def start(self):
        log = self.site.folder / f"{self.name}.log"
        self.begin = len(log.read_text(encoding="utf-8")) if log.exists() else 0
        self.process = self.site.programs.start(self.site.bin / "tern-aggregator", "serve", *self.options(),
                                                log=log)

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def last_words(self):
        return last_lines(self.site.folder / f"{self.name}.log")

    def is_displaced(self):
        """Whether it has ended because another aggregator leads: a service manager restarts it."""
        log = (self.site.folder / f"{self.name}.log").read_text(encoding="utf-8")
        return self.process.poll() == 1 and "event=displaced" in log[self.begin:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def verb(self, *arguments):
        return must_run(self.site.bin / "tern-aggregator", arguments[0], *self.options(), *arguments[1:])


def sets_of_aggregator(overrides):
    return sets(*(one for one in overrides if not one.startswith(NOT_OF_AGGREGATOR)))


def sets_of_fleet(overrides):
    """Adds the aggregator's settings that tern-fleet also reads."""
    return sets(*(one for one in overrides if one.startswith(OF_FLEET) or one.partition("=")[0] in FLEET_READS_TOO))


def sets(*overrides):
    return [word for one in overrides for word in ("--set", one)]


class Site:
    """The aggregators `names` on the database of a cluster (tests/postgres/cluster.py), which stays the caller's; None: one
    aggregator on SQLite.
    folder: has server.pem and server.key; gets state and logs. overrides: SECTION.KEY=VALUE."""

    def __init__(self, programs, postgres, binaries, folder, config, overrides, names):
        self.programs, self.postgres, self.bin = programs, postgres, binaries
        self.folder, self.config, self.overrides = folder, config, overrides
        self.nodes = {name: Node(self, name) for name in names}
        self.any = next(iter(self.nodes.values()))

    def status(self):
        """Returns the status; None: the database is unreachable."""
        text = run(self.bin / "tern-aggregator", "status", *self.any.options(), "--json")
        return json.loads(text) if text is not None else None


class Fleet:
    """tern-fleet against the site; prints its lines as they arrive."""

    def __init__(self, site, port, results, *overrides):
        self.log = site.folder / "fleet.log"
        code = json.loads(site.any.verb("enroll-code", "--uses", "100000", "--evaluator", "--json"))["code"]
        self.options = ["--config", site.config, *sets_of_fleet(site.overrides), *sets(
            f"fleet.server=https://127.0.0.1:{port}", f"fleet.ca={site.folder}/ca.pem", f"fleet.join_code={code}",
            f"fleet.state_dir={site.folder}/clients", *overrides)]
        self.program = site.bin / "tern-fleet"
        self.results = results
        self.process = site.programs.start(self.program, "run", *self.options, "--results", results, "--no-table",
                                           log=self.log, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._show, daemon=True).start()

    def _show(self):
        for line in self.process.stdout:
            print(line, end="", flush=True)

    def why(self):
        return last_lines(self.log)

    def acknowledged(self):
        """Returns (client, round) of each acknowledged update."""
        results = json.loads(self.results.read_text(encoding="utf-8"))
        return set(zip(results["record_client"], results["record_version"]))

    def evaluate(self, model):
        """Adds the accuracy of the global model to the results, and prints it."""
        print(must_run(self.program, "evaluate", *self.options, self.results, model), end="")
