"""A federation in secure rounds: one aggregator, one helper, and the clients of tern-fleet.

    demo.py CONFIG FOLDER RESULTS --programs DIR [--set section.key=value]...

FOLDER has server.pem, server.key and ca.pem, and gets logs, the state of both services, and the final model as global.f32,
and saw.txt, what each party saw; RESULTS becomes the fleet's results as JSON. Each client of the fleet also adds its update without
a mask, in the fleet's memory. Exits with 1 if the mean update that the aggregator stored in a round differs by a bit from
the mean of those open sums (not compared with groups or attackers), a round lacks an update, the aggregator still has a masked update, the helper's ledger has a
value as large as one, or `verify` finds a fault. Stops all programs that it started, also when a signal ends it.
"""
import hashlib
import json
import pathlib
import sqlite3
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "lab")]
from comparison.settings import OF_SECURE, effective, without_secure, write  # noqa: E402
from failover.nodes import Fleet, Site, sets  # noqa: E402
from failover.programs import Programs, check, free_port, listens, main_of_demo, must_run, wait_until  # noqa: E402

MIN_CLIENTS = 50  # of a sum, as by default; fewer only in a smaller fleet
# What secure rounds need, beside the settings of a plain federation.
SECURE = ("round.strategy=fedavgm:norm_bound=0", "downloads.plan=trunk", "codec.error_feedback=keep")


class Helper:
    """tern-helper with one federation, and a join code for `clients` clients."""

    def __init__(self, programs, binaries, folder, clients, smallest):
        self.state = folder / "helper"
        self.bin = binaries / "tern-helper"
        self.port = free_port()
        self.min_clients = min(MIN_CLIENTS, smallest)
        self.options = sets(f"helper.state_dir={self.state}", "helper.address=127.0.0.1", f"helper.port={self.port}",
                            f"helper.certificate={folder}/server.pem", f"helper.private_key={folder}/server.key",
                            f"helper.min_clients={self.min_clients}")
        self.verb("init")
        self.token = self.verb("federation", "add", "digits").strip()
        self.code = json.loads(self.verb("code", "digits", "--uses", clients, "--json"))["code"]
        self.key = json.loads(self.verb("status", "--json"))["public_key"]
        self.process = programs.start(self.bin, "serve", *self.options, log=folder / "helper.log")
        wait_until("tern-helper does not listen: see helper.log",
                   lambda: self.process.poll() is not None or listens(self.port), 30)
        check(self.process.poll() is None, "tern-helper has ended: " + (folder / "helper.log").read_text(encoding="utf-8"))

    def verb(self, *words):
        return must_run(self.bin, *words, *self.options)

    def overrides(self):
        """Returns the settings that the aggregator and the clients have in common."""
        return [f"secure.helper_key={self.key}", f"secure.min_clients={self.min_clients}"]


def rows(database, query):
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def largest_value(database):
    """Returns the bytes of the largest value in all tables."""
    tables = [name for name, in rows(database, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = [(table, column[1]) for table in tables for column in rows(database, f"PRAGMA table_info({table})")]
    return max(rows(database, f"SELECT max(length(CAST({column} AS BLOB))) FROM {table}")[0][0] or 0
               for table, column in columns)


def check_rounds(site, cohort):
    """Returns the number of rounds, all of which have as many updates as the cohort has clients."""
    rounds = json.loads(site.any.verb("rounds", "--json"))
    wrong = [row["round"] for row in rounds
             if (row["state"], row["mode"], row["applied"]) != ("committed", "secure", cohort)]
    check(rounds and not wrong, f"rounds {wrong} are not secure ones with {cohort} updates")
    return len(rounds)


def check_sums(database, results, cohort, rounds, noisy):
    """Compares the mean updates that the aggregator stored with those of the fleet, which added without masks and noise."""
    size = dict(zip(results["open_sum_round"], results["open_sum_bytes"]))
    stored = {number: hashlib.sha256(body[-size.get(number, 0):]).hexdigest()
              for number, body in rows(database, "SELECT round, body FROM secure_sums")}
    added = dict(zip(results["open_sum_round"], results["open_sum_sha256"]))
    check(len(stored) == rounds and set(results["open_sum_clients"]) == {cohort},
          f"{len(stored)} of {rounds} rounds have a sum, of {sorted(set(results['open_sum_clients']))} updates")
    differ = {number for number in stored.keys() | added.keys() if stored.get(number) != added.get(number)}
    wrong = sorted(added.keys() - differ if noisy else differ)
    check(not wrong, f"masked and open sums {'have no noise' if noisy else 'differ'} in rounds {wrong}")


def check_what_is_kept(folder, payload):
    """Returns the bytes of the largest value in the helper's ledger. payload: of a masked update."""
    masked = rows(folder / "aggregator/tern.db", "SELECT count(*) FROM update_bodies")[0][0]
    check(masked == 0, f"the aggregator's database still has {masked} masked updates")
    largest = largest_value(folder / "helper/helper.db")
    check(largest < payload / 2, f"the helper's ledger has a value of {largest} bytes, which may be an update")
    return largest


def what_each_party_saw(folder, helper, results, rounds, compared):
    payload = max(results["record_payload_up"])
    largest = check_what_is_kept(folder, payload)
    ledger = json.loads(helper.verb("status", "--json"))["federations"][0]
    return f"""
what each party saw
  a device        its own data, the model, the facts of each round; it sent one masked update of {payload / 1e3:.1f} KB a round
  the aggregator  {rounds} sums of {results['cohort']} updates, and masked updates, of which its database has none any more
  the helper      {ledger['tickets']} tickets and {ledger['rounds']} lists of devices; no update: its ledger's largest value has {largest} bytes
{f'masked and open sums agree, to the bit, in {rounds} of {rounds} rounds' if compared else ''}
"""


def federate(arguments, programs):
    folder = arguments.folder.resolve()
    settings = effective(arguments.config, arguments.overrides)
    cohort = int(settings["round.cohort"])
    groups = int(settings.get("secure.groups", 1))
    config = folder / "federation.ini"
    write(config, without_secure(settings))
    secure = [f"{key}={value}" for key, value in settings.items() if key.startswith(OF_SECURE)]
    helper = Helper(programs, arguments.programs, folder, int(settings["fleet.clients"]), cohort // groups)
    secure = [*SECURE, *secure, *helper.overrides(), f"secure.helper=https://127.0.0.1:{helper.port}", f"secure.ca={folder}/ca.pem"]
    print("settings of tern-aggregator:", config, *sets(*secure), flush=True)
    site = Site(programs, None, arguments.programs, folder, config, secure, ("aggregator",))
    token = site.any.state / "helper.token"
    token.write_text(helper.token, encoding="utf-8")
    token.chmod(0o600)
    site.any.verb("init")
    site.any.start()
    wait_until("tern-aggregator does not listen: see aggregator.log",
               lambda: not site.any.runs() or listens(site.any.port), 60)
    fleet = Fleet(site, site.any.port, arguments.results, *helper.overrides(), f"secure.code={helper.code}")
    while fleet.process.poll() is None:
        check(site.any.runs(), f"the aggregator has ended:\n{site.any.last_words()}")
        time.sleep(0.1)
    check(fleet.process.returncode == 0, f"tern-fleet ended with {fleet.process.returncode}:\n{fleet.why()}")
    model = folder / "global.f32"
    site.any.verb("export", "--global", model)
    fleet.evaluate(model)
    programs.end(site.any.process)
    programs.end(helper.process)
    print(site.any.verb("verify"), end="")
    results = json.loads(arguments.results.read_text(encoding="utf-8"))
    rounds = check_rounds(site, cohort)
    compared = groups == 1 and not float(settings.get("fleet.attackers", 0))
    if compared:
        check_sums(folder / "aggregator/tern.db", results, cohort, rounds, float(settings.get("privacy.noise", 0)) > 0)
    (folder / "saw.txt").write_text(what_each_party_saw(folder, helper, results, rounds, compared), encoding="utf-8")


def run(arguments):
    with Programs() as programs:
        federate(arguments, programs)


if __name__ == "__main__":
    sys.exit(main_of_demo(__doc__, run))
