"""./tern bench qsvrg: that a real federation does what the reference does, value by value and bit by bit, and what is
made of its figures."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TERN_BUILD_DIR"])
sys.path[:0] = [str(SOURCE / folder) for folder in ("lab", "lab/bench", "tests/reference")]
import qsvrg  # noqa: E402
import tern_reference as ref  # noqa: E402
from convex import bounds  # noqa: E402
from convex.objectives import Objective, Ridge  # noqa: E402
from convex.tables import TABLES, Table, exact  # noqa: E402
from tern_reference import draws, federations  # noqa: E402

CLIENTS, SEED = 3, 11
DATA, SPLIT, PARTITION, NATURAL = 5, 2, 4, 3  # of client/data: streams of random numbers
TOLERANCE = 1e-6


def drawn_table(model, wanted, told):
    """Draws a table of clients with 4, 5 and 6 rows."""
    random_ = random.Random(7)
    rows = []
    for client in range(CLIENTS):
        for _ in range(4 + client):
            features = [exact(random_.uniform(-1, 1)) for _ in range(int(model.split(":")[1].split("-")[0]))]
            rows.append((client, features, told(random_)))
    return Table("drawn", model, 0.25, wanted, rows)


def shuffled(values, stream):
    for i in range(len(values), 1, -1):
        j = draws.below(stream, i)
        values[i - 1], values[j] = values[j], values[i - 1]
    return values


def rows_of_members(table):
    """Returns the rows of each client of tern-fleet, in the client's order."""
    order = shuffled(list(range(len(table.rows))), draws.stream(1, DATA, SPLIT, 0))
    groups = shuffled(list(range(CLIENTS)), draws.stream(1, PARTITION, CLIENTS, NATURAL))
    return [[row for row in order if table.rows[row][0] == group] for group in groups]


def reference_of(table, codec, rate):
    objective = table.objective()
    clients = []
    for number, rows in enumerate(rows_of_members(table), 1):
        def gradient(weights, positions, rows=rows):
            return objective.gradient(weights, [rows[at] for at in positions])
        clients.append(federations.Client(number, len(rows), gradient))
    return federations.Federation(ref.Model(table.model), codec, SEED, rate, 2, clients)


def options_of(settings):
    return [word for key, value in settings.items() for word in ("--set", "%s=%s" % (key, value))]


class Federation(unittest.TestCase):
    """Runs of `./tern experiment`, whose versions and bytes are compared with the reference's."""

    def run_federation(self, table, settings):
        """Its results, and the aggregator that has its versions."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        path = folder / "table.csv"
        table.write(path)
        settings = {**settings, "federation.model": table.model, "federation.seed": SEED,
                    "data.source": table.source(path), "train.weight_decay": table.penalty, "train.batch_size": 2,
                    "fleet.clients": CLIENTS, "round.cohort": CLIENTS, "round.quorum": CLIENTS,
                    "round.min_clients": CLIENTS}
        options = options_of(settings)
        done = subprocess.run(
            [SOURCE / "tern", "experiment", SOURCE / "configs/experiments/qsvrg.ini", "--json",
             folder / "results.json", "--keep", folder / "kept", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        aggregator = [str(BUILD / "bin" / "tern-aggregator"), "--config",
                      str(SOURCE / "configs/experiments/qsvrg.ini"),
                      *options_of({key: value for key, value in settings.items()
                                   if not key.startswith(("data.", "fleet."))}),
                      "--set", "federation.state=%s" % (folder / "kept" / "run" / "state")]
        with open(folder / "results.json", encoding="utf-8") as file:
            return json.load(file), aggregator

    def compare(self, made, results, aggregator):
        sizes = {}
        for version, client, size in zip(results["record_version"], results["record_client"],
                                         results["record_payload_up"], strict=True):
            sizes[int(version), int(client)] = int(size)
        rounds = 0
        for version, (weights, bits) in enumerate(made, 1):
            found = qsvrg.weights_of(aggregator, "--version", str(version))
            for one, other in zip(found, weights, strict=True):
                self.assertAlmostEqual(one, other, delta=TOLERANCE)
            self.assertEqual([8 * sizes[version, client] for client in range(1, CLIENTS + 1)], bits, version)
            rounds = version
        self.assertEqual(rounds, results["rounds"])

    CODEC = "qsgd:levels=4,bucket=268435456,norm=l2,coder=elias"

    def check(self, table, settings, reference):
        rate = 0.0625
        results, aggregator = self.run_federation(table, {**settings, "codec.codec": self.CODEC,
                                                          "train.learning_rate": rate})
        start = ref.Model(table.model).initial_weights(SEED)
        self.compare(reference(reference_of(table, self.CODEC, rate), start), results, aggregator)

    def numbers(self):
        return drawn_table("linear:15-1,loss=mse", "target", lambda drawn: exact(drawn.uniform(-1, 1)))

    def classes(self):
        return drawn_table("softmax:4-3", "label", lambda drawn: drawn.randrange(3))

    def test_qsgd_is_the_references(self):
        for table in (self.numbers(), self.classes()):
            with self.subTest(table.model):
                self.check(table, {"round.strategy": "fedavg:norm_bound=0", "round.rounds": 12},
                           lambda federation, start: federations.qsgd(federation, start, 12))

    def test_qsvrg_is_the_references(self):
        for table in (self.numbers(), self.classes()):
            with self.subTest(table.model):
                self.check(table, {"round.strategy": "qsvrg:epoch_steps=8", "round.rounds": 16},
                           lambda federation, start: federations.qsvrg(federation, start, 16, 8))


def run_of(strategy, distances, bits):
    return {"table": "even", "strategy": strategy, "distances": distances, "bits": bits,
            "counted_bits": [each - 10 for each in bits]}


class Report(unittest.TestCase):
    def test_bits_are_of_a_clients_epoch(self):
        zero, four = b"\1\0", b"\5\1abcd"  # a length, a mode, and 32 bits that the theorem counts
        updates = [(round_number, client, zero * round_number + four) for round_number in range(1, 7)
                   for client in (4, 9)]
        sent, counted = qsvrg.bits_by_epoch(updates, 2, 3)
        self.assertEqual(sent, [16.0 * 3 + 96, 16.0 * 7 + 96, 16.0 * 11 + 96])
        self.assertEqual(counted, [64.0] * 3)

    def test_the_theorem_counts_norms_codes_and_floats(self):
        model = ref.Model("linear:15-1,loss=mse")
        values = [0.0] * 14 + [3.0, -4.0]
        full, _ = ref.container.encode("float32", model, values)
        self.assertEqual(qsvrg.counted_bits(full), 32 * 16)
        # The norm is 5, so levels are 3 and 4: a distance of 15, a sign, 3; a distance of 1, a sign, 4.
        coded, _ = ref.container.encode("qsgd:levels=5,bucket=268435456,norm=l2,coder=elias", model, values)
        written = sum(len(self.omega(k)) for k in (15, 3, 1, 4)) + 2
        self.assertEqual(qsvrg.counted_bits(coded), 32 + 8 * -(-written // 8))
        self.assertEqual(len(coded) - qsvrg.counted_bits(coded) // 8, 5)  # length, mode, levels, bucket, how many

    @staticmethod
    def omega(k):
        text = "0"
        while k > 1:
            text = bin(k)[2:] + text
            k = len(bin(k)[2:]) - 1
        return text

    def test_rates_end_with_float32(self):
        found = qsvrg.rates([1.0, 0.5, 0.125, 1e-10, 2e-10])
        self.assertEqual(found, [0.5, 0.25])
        self.assertAlmostEqual(qsvrg.mean_rate(found), 0.125 ** 0.5)

    def test_figures(self):
        objective = Objective(Ridge(), [([1.0], 1.0)], 0.5)  # L = 4.5, kappa = 9
        figures = qsvrg.figures(objective, {"qsvrg": run_of("qsvrg", [1.0, 0.5, 0.125], [100, 300]),
                                            "fedavg": {**run_of("fedavg", [1.0, 0.2, 0.4], [50, 60]), "averaged": 0.1}})
        self.assertEqual(figures["epoch_steps"], 38 * 9)
        self.assertAlmostEqual(figures["step_size"], 1 / (17 * 4.5))
        self.assertAlmostEqual(figures["mean_rate"], 0.125 ** 0.5)
        self.assertEqual(figures["worst_rate"], 0.5)
        self.assertEqual(figures["distance"], 0.125)
        self.assertAlmostEqual(figures["qsgd_floor"], 0.3)
        self.assertEqual(figures["qsgd_averaged"], 0.1)
        self.assertEqual([figures["bits_" + name] for name in ("sent", "counted", "of_qsgd")], [200, 190, 55])
        self.assertEqual(figures["bits_bound"], bounds.bits_of_epoch(2, 342))

    def test_the_document_has_these_tables(self):
        text = (SOURCE / "docs" / "BENCHMARKS.md").read_text()
        text = text.split("\n## QSVRG on tasks whose optimum is known\n", 1)[1].split("\n## ", 1)[0]
        head, _, *rows = [[cell.strip() for cell in line.strip("| ").split(" | ")]
                          for line in text.splitlines() if line.startswith("| ")]
        self.assertEqual(head, [cell.replace("%d", "12") for cell in qsvrg.HEAD])
        made = {}
        for name, make in TABLES.items():
            objective = make().objective()
            runs = {"qsvrg": run_of("qsvrg", [1.0, 0.5], [100]),
                    "fedavg": {**run_of("fedavg", [1.0, 0.5], [100]), "averaged": 0.1}}
            made[name] = qsvrg.figures(objective, runs)
        now = [[cell.strip() for cell in line.strip("| ").split(" | ")]
               for line in list(qsvrg.markdown(made, 12))[2:]]
        for row, computed in zip(rows, now, strict=True):
            # What follows from the table alone.
            self.assertEqual(row[:4] + row[-1:], computed[:4] + computed[-1:])

    def test_a_plan_is_the_theorems(self):
        table = TABLES["even"]()
        made = qsvrg.settings(table, table.objective(), "qsvrg", 3, "even.csv")
        self.assertEqual(made["round.strategy"], "qsvrg:epoch_steps=%d" % (made["round.rounds"] // 3 + 1))
        self.assertIn("levels=16,", made["codec.codec"])
        self.assertNotIn("epoch_steps", qsvrg.settings(table, table.objective(), "fedavg", 3, "even.csv")["round.strategy"])


if __name__ == "__main__":
    unittest.main()
