"""lab/convex: objectives, their optimum and the theorem's constants; by the reference, that QSVRG goes through the
floor at which QSGD stays."""
import hashlib
import math
import os
import pathlib
import random
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "lab"), str(SOURCE / "tests" / "reference")]
import tern_reference as ref  # noqa: E402
from convex import bounds  # noqa: E402
from convex.objectives import Objective, Ridge, Softmax, dot, solve  # noqa: E402
from convex.tables import CLIENTS, ROWS, TABLES  # noqa: E402
from tern_reference import federations  # noqa: E402

# The tables are what a figure in docs/BENCHMARKS.md is of.
DIGESTS = {"even": "53148d5acea2d14d", "uneven": "27eb9339db3a06f2", "classes": "659bed3624b5357b"}


def small(loss, wanted, rows=12, width=3, penalty=0.25, seed=5):
    drawn = random.Random(seed)
    return Objective(loss, [([drawn.uniform(-1, 1) for _ in range(width)], wanted(drawn)) for _ in range(rows)],
                     penalty)


def ridge(**shape):
    return small(Ridge(), lambda drawn: drawn.uniform(-1, 1), **shape)


def softmax(**shape):
    return small(Softmax(3), lambda drawn: drawn.randrange(3), **shape)


def some_weights(objective, seed=1):
    drawn = random.Random(seed)
    return [drawn.uniform(-1, 1) for _ in range(objective.count)]


class Objectives(unittest.TestCase):
    def test_gradients_are_those_of_the_value(self):
        for objective in (ridge(), softmax()):
            w, step = some_weights(objective), 1e-6
            gradient = objective.gradient(w)
            for i in range(objective.count):
                up, down = ([v + sign * step * (k == i) for k, v in enumerate(w)] for sign in (1, -1))
                self.assertAlmostEqual((objective.value(up) - objective.value(down)) / (2 * step), gradient[i], 8)

    def test_the_gradient_is_the_mean_of_the_rows(self):
        for objective in (ridge(), softmax()):
            w = some_weights(objective)
            ones = [objective.gradient(w, [row]) for row in range(12)]
            for i, whole in enumerate(objective.gradient(w)):
                self.assertAlmostEqual(sum(one[i] for one in ones) / 12, whole, 12)

    def test_hessians_are_those_of_the_gradient(self):
        for objective in (ridge(), softmax()):
            w, step = some_weights(objective), 1e-6
            way = some_weights(objective, 2)
            up, down = (objective.gradient([v + sign * step * d for v, d in zip(w, way)]) for sign in (1, -1))
            turned = [value for vector in objective.unflatten(way) for value in vector]
            made = [dot(row, turned) for row in objective.hessian(w)]
            found = objective.unflatten([(a - b) / (2 * step) for a, b in zip(up, down)])
            for one, other in zip(made, [value for vector in found for value in vector]):
                self.assertAlmostEqual(one, other, 7)

    def test_the_optimum_has_no_slope_and_nothing_near_is_lower(self):
        for objective in (ridge(), softmax()):
            best = objective.optimum()
            self.assertLess(math.hypot(*objective.gradient(best)), 1e-13)
            for seed in range(20):
                near = [v + 1e-3 * d for v, d in zip(best, some_weights(objective, seed))]
                self.assertGreater(objective.value(near), objective.value(best))

    def test_of_one_column_the_optimum_is_as_by_hand(self):
        # The mean of (w x + b - t)^2 over (1, 3), (-1, 1), and (w^2 + b^2) / 2: w = 2 / 3, b = 4 / 3.
        objective = Objective(Ridge(), [([1.0], 3.0), ([-1.0], 1.0)], 1.0)
        for found, wanted in zip(objective.optimum(), (2 / 3, 4 / 3)):
            self.assertAlmostEqual(found, wanted, 14)

    def test_no_gradient_changes_faster_than_smoothness_nor_slower_than_convexity(self):
        for objective in (ridge(), softmax()):
            fastest = 0.0
            for seed in range(200):
                a, b = some_weights(objective, seed), some_weights(objective, seed + 1000)
                way = math.dist(a, b)
                for row in range(12):
                    change = math.dist(objective.gradient(a, [row]), objective.gradient(b, [row]))
                    fastest = max(fastest, change / way)
                gradients = (objective.gradient(a), objective.gradient(b))
                along = sum((x - y) * (g - h) for x, y, g, h in zip(a, b, *gradients))
                self.assertGreaterEqual(along, objective.convexity() * way ** 2)
            self.assertLessEqual(fastest, objective.smoothness())

    def test_solve(self):
        self.assertEqual(solve([[4.0, 2.0], [2.0, 5.0]], [8.0, 12.0]), [1.0, 2.0])


class Tables(unittest.TestCase):
    def test_they_are_the_same_everywhere(self):
        for name, make in TABLES.items():
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "table.csv"
                make().write(path)
                self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest()[:16], DIGESTS[name], name)

    def test_clients_have_as_many_rows_and_float32_holds_them(self):
        for make in TABLES.values():
            table = make()
            self.assertEqual([client for client, _, _ in table.rows],
                             [client for client in range(CLIENTS) for _ in range(ROWS)])
            for _, features, wanted in table.rows:
                self.assertEqual([ref.f32(value) for value in features + [wanted]], features + [wanted])

    def test_one_is_well_and_one_badly_conditioned(self):
        condition = {name: make().objective().smoothness() / make().objective().convexity()
                     for name, make in TABLES.items()}
        self.assertLess(condition["even"], 16)
        self.assertGreater(condition["uneven"], 40)

    def test_models_have_as_many_values_as_their_objectives(self):
        for make in TABLES.values():
            table = make()
            model = ref.Model(table.model)
            self.assertEqual(model.count, table.objective().count)
            self.assertEqual(len(model.segments), 1)


class Bounds(unittest.TestCase):
    def test_the_constants_give_the_theorems_rate(self):
        self.assertLess(bounds.factor(bounds.STEP, bounds.STEPS), bounds.RATE)
        # Bubeck's, without a quantiser, whose a counts half: 1 / (0.1 * 0.8 * 20) + 0.2 / 0.8.
        self.assertAlmostEqual(bounds.factor(0.05, 40), 0.875)

    def test_bits(self):
        self.assertEqual(bounds.bits_of_epoch(10, 4), (32 + 28) * 5 + 320)


# --- The reference's federations


def federation_of(objective, codec, rate, seed=3):
    """Two clients with a third and two thirds of the rows."""
    count = len(objective.wanted)
    shares = [range(count // 3), range(count // 3, count)]

    def gradient_of(share):
        return lambda weights, positions: objective.gradient(weights, [share[at] for at in positions])

    spec = "linear:%d-1,loss=mse" % (objective.width - 1)
    return federations.Federation(ref.Model(spec), codec, seed, rate, 1, [
        federations.Client(number, len(share), gradient_of(share)) for number, share in enumerate(shares, 1)])


class Reference(unittest.TestCase):
    CODEC = "qsgd:levels=4,bucket=268435456,norm=l2,coder=elias"

    def setUp(self):
        self.objective = ridge(rows=24, width=15, penalty=1.0)
        self.rate = bounds.rate_of(self.objective)
        self.steps = bounds.steps_of(self.objective)
        self.start = [0.0] * self.objective.count
        self.least = self.objective.value(self.objective.optimum())

    def distances(self, made, every):
        return [self.objective.value(weights) - self.least
                for number, (weights, _) in enumerate(made, 1) if number % every == 0]

    def test_qsvrg_converges_at_the_rate_and_qsgd_stays_at_its_floor(self):
        epochs, rounds = 4, 4 * (self.steps - 1)
        federation = federation_of(self.objective, self.CODEC, self.rate)
        reduced = self.distances(federations.qsvrg(federation, self.start, rounds, self.steps), self.steps - 1)
        plain = self.distances(federations.qsgd(federation, self.start, rounds), self.steps - 1)
        first = self.objective.value(self.start) - self.least
        self.assertEqual(len(reduced), epochs)
        for before, after in zip([first, *reduced], reduced):
            self.assertLess(after, bounds.RATE * before)
        self.assertLess(reduced[-1], 1e-2 * min(plain[-2:]))
        self.assertGreater(plain[-1], 1e-4 * first)

    def test_without_a_quantiser_the_first_step_is_that_of_the_whole_gradient(self):
        federation = federation_of(self.objective, "float32", self.rate)
        made = federations.qsvrg(federation, self.start, 1, 9)
        weights, bits = next(made)
        gradient = self.objective.gradient(self.start)
        for value, slope in zip(weights, gradient):
            self.assertAlmostEqual(value, -self.rate * slope, 7)
        self.assertEqual(bits, [8 * (2 + 4 * 16)] * 2)  # of a container: a payload's length, and its mode

    def test_the_mean_of_the_iterates_ends_an_epoch(self):
        federation = federation_of(self.objective, self.CODEC, self.rate)
        whole = [weights for weights, _ in federations.qsvrg(federation, self.start, 4, 5)]
        # Without the end of the epoch: the same iterates, and one more.
        longer = [weights for weights, _ in federations.qsvrg(federation, self.start, 4, 50)]
        self.assertEqual(whole[:3], longer[:3])
        for i, value in enumerate(whole[3]):
            mean = (self.start[i] + sum(weights[i] for weights in longer)) / 5
            self.assertAlmostEqual(value, mean, 7)


if __name__ == "__main__":
    unittest.main()
