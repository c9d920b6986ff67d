"""The scaling of columns against plain Python, written from docs/PROTOCOL.md, "Statistics of columns".

It also checks what the scaling promises: all rows' mean and deviation where clients are alike, bounds where one is not.

    test_column_scaling.py DRIVER
"""

import math
import random
import statistics
import struct
import subprocess
import sys
import unittest

FAR = 16
LEAST = 2.0 ** -126
MOST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def reference(clients):
    """clients: [(examples, [(mean, variance), ...]), ...]"""
    examples = [count for count, _ in clients]
    if len(clients) >= 3:
        most = FAR * statistics.median(examples)
        examples = [min(count, most) for count in examples]
    scaling = []
    for column in zip(*(columns for _, columns in clients)):
        if len(clients) >= 3:
            centre = statistics.median(mean for mean, _ in column)
            squares = [variance + (mean - centre) ** 2 for mean, variance in column]
            most = FAR ** 2 * statistics.median(squares)
            column = [(mean, variance) if square <= most or most == 0 else
                      (centre + math.sqrt(most / square) * (mean - centre), variance * (most / square))
                      for (mean, variance), square in zip(column, squares)]
        mean = math.fsum(n * m for n, (m, _) in zip(examples, column)) / math.fsum(examples)
        square = math.fsum(n * (v + (m - mean) ** 2) for n, (m, v) in zip(examples, column)) / math.fsum(examples)
        deviation = min(math.sqrt(square), MOST)
        scaling.append((mean, deviation if deviation >= LEAST else 1.0))
    return scaling


class Driver:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, clients):
        lines = [f"{len(clients)} {len(clients[0][1])}"]
        for count, columns in clients:
            lines.append(" ".join([str(count), *(f"{value:.9g}" for pair in columns for value in pair)]))
        self.process.stdin.write("\n".join(lines) + "\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        assert words, "the driver ended"
        numbers = [float(word) for word in words[2:]]
        return int(words[0]), int(words[1]), list(zip(numbers[::2], numbers[1::2]))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def told(rows):
    """What a client says of its rows."""
    columns = []
    for values in zip(*rows):
        mean = math.fsum(values) / len(values)
        columns.append((float32(mean), float32(math.fsum((v - mean) ** 2 for v in values) / len(values))))
    return len(rows), columns


class ColumnScaling(unittest.TestCase):
    def setUp(self):
        self.driver = Driver(DRIVER)
        self.addCleanup(self.driver.close)

    def compare(self, clients):
        _, far, found = self.driver.ask(clients)
        for (mean, deviation), (true_mean, true_deviation) in zip(found, reference(clients)):
            self.assertTrue(math.isclose(mean, true_mean, rel_tol=1e-6, abs_tol=1e-6 * true_deviation),
                            f"mean {mean}, not {true_mean}, of {clients}")
            self.assertTrue(math.isclose(deviation, true_deviation, rel_tol=1e-6),
                            f"deviation {deviation}, not {true_deviation}, of {clients}")
        return far

    def test_as_documented(self):
        rng = random.Random(4)
        far = 0
        for _ in range(300):
            columns = rng.randint(1, 5)
            clients = [(rng.choice([1, 7, 100, rng.randint(1, 10**7)]),
                        [(float32(rng.choice([0, rng.gauss(0, 1), rng.gauss(3e3, 9), rng.gauss(0, 1e20)])),
                          float32(rng.choice([0, rng.random(), 1e-30, 1e12 * rng.random()])))
                         for _ in range(columns)]) for _ in range(rng.randint(1, 12))]
            far += self.compare(clients)
        self.assertGreater(far, 100)  # both ways were tried

    def test_alike_clients_scale_as_all_rows_together(self):
        rng = random.Random(2)
        parts = [[(float32(rng.gauss(2950 + 5 * i, 20)), float32(rng.gauss(0.01, 0.002)))
                  for _ in range(count)] for i, count in enumerate((40, 900, 200, 77))]
        rows = [row for part in parts for row in part]
        _, far, found = self.driver.ask([told(part) for part in parts])
        self.assertEqual(far, 0)
        for (mean, deviation), (true_mean, true_variance) in zip(found, told(rows)[1]):
            self.assertTrue(math.isclose(mean, true_mean, rel_tol=1e-6), (mean, true_mean))
            self.assertTrue(math.isclose(deviation, math.sqrt(true_variance), rel_tol=1e-5),
                            (deviation, true_variance))

    def test_one_of_many_moves_it_within_bounds(self):
        rng = random.Random(3)
        for hostile in ((1e38, 0), (-3e38, 3e38), (0, 0), (0, 3e38)):
            for clients in (3, 5, 20):
                honest = [(rng.randint(50, 150), [(float32(rng.gauss(0, 0.5)), 1.0)]) for _ in range(clients - 1)]
                _, _, ((mean, deviation),) = self.driver.ask([*honest, (2**32 - 1, [hostile])])
                self.assertLess(abs(mean), FAR * 2.5, hostile)
                self.assertLess(deviation, FAR * 2.5, hostile)
                self.assertGreater(deviation, 0.15, hostile)

    def test_constant_columns_become_zero(self):
        constant, _, found = self.driver.ask([(5, [(7.0, 0.0), (1.0, 1.0)]), (9, [(7.0, 0.0), (1.0, 1.0)])])
        self.assertEqual((constant, found), (1, [(7.0, 1.0), (1.0, 1.0)]))

    def test_a_column_that_few_clients_see_move_keeps_their_spread(self):
        quiet, loud = (100, [(0.0, 0.0)]), (100, [(4.0, 9.0)])
        _, far, ((mean, deviation),) = self.driver.ask([quiet, quiet, quiet, loud])
        self.assertEqual((far, mean), (0, 1.0))
        self.assertTrue(math.isclose(deviation, math.sqrt((9 + 16) / 4 - 1), rel_tol=1e-6))


DRIVER = sys.argv[1]
unittest.main(argv=sys.argv[:1])
