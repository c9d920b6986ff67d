"""Every strategy against plain Python, over several rounds of random updates, to 1e-6; and what its
arithmetic promises.

    test_reference.py DRIVER
"""

import math
import random
import subprocess
import sys
import unittest

import reference as ref

COUNT = 15
ROUNDS = 6
TOLERANCE = 1e-6
ROOMY = COUNT * 64


class Strategies:
    """The program's strategies, through their driver."""

    def __init__(self, driver):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([driver], stdin=pipe, stdout=pipe, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().split()
        assert line, f"the driver ended at {words[0]}"
        return line

    def begin(self, name, parameters="-", rate=1.0, learning_rate=0.0, room=ROOMY):
        for bound in ("norm_bound", "examples_bound"):  # every mean has all three
            if "scale_max=" in parameters and f"{bound}=" not in parameters:
                parameters += f",{bound}=0"
        return self.ask("begin", name, parameters, rate, learning_rate, room)

    def round(self, updates):
        for examples, steps, staleness, values in updates:
            answer = self.ask("update", examples, steps, staleness, *(repr(v) for v in values))
            assert answer == ["ok"], answer
        answer = self.ask("merge")
        assert answer[0] == "ok", answer
        return [float(word) for word in answer[1:]]

    def state(self, which):
        return [float(word) for word in self.ask("state", which)[1:]]

    def again(self, name, parameters):
        return self.ask("again", name, parameters, 1.0, 0.0, ROOMY)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def random_round(rng, unequal_steps=True, stale=False, far_apart=False):
    updates = []
    for _ in range(rng.randint(1, 11)):
        values = [rng.choice([0.0, rng.gauss(0, 1), rng.gauss(0, 0.01)]) for _ in range(COUNT)]
        steps = rng.randint(1, 60) if unequal_steps else 20
        if far_apart:
            steps = rng.choice([steps + 9, steps + 9, 40 * steps])
        staleness = rng.randint(0, 10) if stale else 0
        updates.append((rng.randint(1, 5000), steps, staleness, values))
    return updates


class ReferenceTest(unittest.TestCase):
    def setUp(self):
        self.strategies = Strategies(DRIVER)
        self.addCleanup(self.strategies.close)

    def close_to(self, got, expected):
        self.assertEqual(len(got), len(expected))
        for one, other in zip(got, expected):
            self.assertLessEqual(abs(one - other), TOLERANCE * max(1.0, abs(other)))

    def compare(self, name, strategy, parameters="-", rate=1.0, learning_rate=0.0, room=ROOMY,
                **rounds):
        """Runs both over the same rounds; the program's model follows the reference's."""
        rng = random.Random(f"{name} {parameters}")
        self.assertEqual(self.strategies.begin(name, parameters, rate, learning_rate, room), ["ok"])
        model = [0.0] * COUNT
        for _ in range(ROUNDS):
            updates = random_round(rng, **rounds)
            model = [w + rate * step for w, step in zip(model, strategy(updates))]
            self.close_to(self.strategies.round(updates), model)

    # --- Means

    def test_fedavg(self):
        self.compare("fedavg", ref.Mean(), "normalise=0,local_momentum=0,scale_max=0")
        self.compare("fedavg", ref.Mean(), "normalise=0,local_momentum=0.9,scale_max=0", rate=0.3)
        self.compare("fedavg", ref.Mean(normalise=1, local_momentum=0.9),
                     "normalise=1,local_momentum=0.9,scale_max=0")

    def test_fedprox(self):
        parameters = "normalise=%d,local_momentum=%g,scale_max=0,prox_mu=%g"
        self.compare("fedprox", ref.Mean(), parameters % (0, 0, 0.1), learning_rate=0.1)
        for momentum, mu in [(0, 0.5), (0.5, 0.1), (0.9, 1)]:
            strategy = ref.Mean(1, momentum, mu, learning_rate=0.1)
            self.compare("fedprox", strategy, parameters % (1, momentum, mu), learning_rate=0.1)

    def test_fednova(self):
        for momentum in [0, 0.5, 0.9, 0.99]:
            self.compare("fednova", ref.Mean(1, momentum), f"local_momentum={momentum},scale_max=0")

    def test_fednova_of_equal_steps_is_fedavg(self):
        rng = random.Random(3)
        for _ in range(20):
            updates = random_round(rng, unequal_steps=False)
            self.strategies.begin("fedavg", "normalise=0,local_momentum=0.9,scale_max=0")
            plain = self.strategies.round(updates)
            self.strategies.begin("fednova", "local_momentum=0.9,scale_max=0")
            self.assertEqual(self.strategies.round(updates), plain)

    def test_bounded_steps(self):
        for momentum in [0, 0.5, 0.9]:
            shared = f"local_momentum={momentum},scale_max=0"
            self.compare("fednova", ref.Mean(1, momentum), shared, far_apart=True)
            self.compare("fedprox", ref.Mean(1, momentum, 0.1, 0.1),
                         f"normalise=1,{shared},prox_mu=0.1", learning_rate=0.1, far_apart=True)
            self.compare("fedbuff", ref.Buff(1, momentum),
                         f"normalise=1,{shared},staleness_max=10", stale=True, far_apart=True)

    def test_a_bound_that_nobody_reaches_leaves_no_trace(self):
        rng = random.Random(7)
        for _ in range(20):
            updates = [(n, 16 + steps, s, v) for n, steps, s, v in random_round(rng)]
            self.strategies.begin("fednova", "local_momentum=0,scale_max=0")
            self.close_to(self.strategies.round(updates),
                          ref.normalised_mean(updates, 0.0, 0.0, bounded=False))

    def test_one_that_claims_many_steps_moves_the_others_little(self):
        for count in range(3, 12):
            for examples in [10, 100, 100000]:
                honest = [(100, 20, 0, [1.0] * COUNT)] * (count - 1)
                liar = (examples, 1000000, 0, [0.0] * COUNT)
                self.strategies.begin("fednova", "local_momentum=0,scale_max=0")
                self.assertLess(self.strategies.round(honest + [liar])[0], 2.5)
                unbounded = ref.normalised_mean(honest + [liar], 0.0, 0.0, bounded=False)
                self.assertGreater(unbounded[0], 50)

    def test_scale_max(self):
        for most in [0, 1, 2, 5]:
            for momentum in [0, 0.5, 0.9]:
                shared = f"local_momentum={momentum},scale_max={most}"
                for far_apart in [False, True]:
                    self.compare("fednova", ref.Mean(1, momentum, scale_max=most),
                                 shared, far_apart=far_apart)
                self.compare("fedavg", ref.Mean(1, momentum, scale_max=most),
                             f"normalise=1,{shared}")
                self.compare("fedavg", ref.Mean(), f"normalise=0,{shared}")
                self.compare("fedprox", ref.Mean(1, momentum, 0.1, 0.1, most),
                             f"normalise=1,{shared},prox_mu=0.1", learning_rate=0.1)
                self.compare("fedbuff", ref.Buff(1, momentum, scale_max=most),
                             f"normalise=1,{shared},staleness_max=10", stale=True)
                strategy = ref.AvgM(0.9, normalise=1, local_momentum=momentum,
                                    scale_max=most)
                self.compare("fedavgm", strategy, f"normalise=1,{shared},server_momentum=0.9", 0.1)
            strategy = ref.Yogi(0.1, 0.9, 0.99, normalise=1, scale_max=most)
            self.compare("fedyogi", strategy, "normalise=1,local_momentum=0,"
                         f"scale_max={most},beta1=0.9,beta2=0.99,tau=0.1", 0.05)

    def bits(self, updates, name, parameters):
        self.assertEqual(self.strategies.begin(name, parameters), ["ok"])
        return self.strategies.round(updates)

    def test_zero_is_no_scale_max(self):
        rng = random.Random(8)
        for _ in range(20):
            updates = random_round(rng, far_apart=True) + [(5000, 1, 0, [1.0] * COUNT)]
            unbounded = self.bits(updates, "fednova", "local_momentum=0.9,scale_max=0")
            near = [(examples, min(steps, 2000), *rest) for examples, steps, *rest in updates]
            self.assertEqual(self.bits(near, "fednova", "local_momentum=0,scale_max=4000"),
                             self.bits(near, "fednova", "local_momentum=0,scale_max=0"))
            self.assertNotEqual(self.bits(updates, "fednova", "local_momentum=0.9,scale_max=2"),
                                unbounded)

    def test_scale_max_leaves_equal_steps_and_what_is_scaled_down(self):
        rng = random.Random(9)
        for most in [1, 1.5, 2]:
            bounded = f"local_momentum=0.9,scale_max={most}"
            for _ in range(20):
                updates = random_round(rng, unequal_steps=False)
                plain = self.bits(updates, "fedavg", "normalise=0,local_momentum=0.9,scale_max=0")
                self.assertEqual(self.bits(updates, "fednova", bounded), plain)
                # Only the update of many steps, which is scaled down, moves anything.
                updates = [(n, 20, s, [0.0] * COUNT) for n, _, s, _ in updates]
                updates.append((9, 60, 0, [rng.gauss(0, 1) for _ in range(COUNT)]))
                self.assertEqual(self.bits(updates, "fednova", bounded),
                                 self.bits(updates, "fednova", "local_momentum=0.9,scale_max=0"))

    def test_a_full_buffer_of_few_steps_is_multiplied_no_further(self):
        many, few = (100, 100, 0, [0.0] * COUNT), (100, 1, 0, [1.0] * COUNT)
        for most, expected in [(0, 25.25), (1, 0.5), (2, 1), (5, 2.5)]:
            got = self.bits([many, few], "fednova", f"local_momentum=0,scale_max={most}")
            self.close_to(got, [expected] * COUNT)

    def test_norms_of_the_paper(self):
        for steps in [1, 2, 3, 10, 57]:
            for momentum in [0.1, 0.9]:
                by_weights = ref.steps_norm_of_weights(steps, momentum)
                closed = (steps - momentum * (1 - momentum ** steps) / (1 - momentum)) / (1 - momentum)
                self.assertAlmostEqual(ref.steps_norm(steps, momentum), by_weights, 9)
                self.assertAlmostEqual(closed, by_weights, 9)
            for alpha in [0.01, 0.5]:
                by_weights = ref.steps_norm_of_weights(steps, 0.0, alpha)
                self.assertAlmostEqual(ref.steps_norm(steps, 0.0, alpha), by_weights, 9)
                self.assertAlmostEqual((1 - (1 - alpha) ** steps) / alpha, by_weights, 9)

    def test_fedbuff(self):
        parameters = "normalise=%d,local_momentum=0,scale_max=0,staleness_max=10"
        self.compare("fedbuff", ref.Buff(), parameters % 0, stale=True)
        self.compare("fedbuff", ref.Buff(1), parameters % 1, rate=0.5, stale=True)

    def test_order_of_counting_does_not_matter(self):
        rng = random.Random(4)
        updates = random_round(rng) + random_round(rng)
        self.strategies.begin("fednova", "local_momentum=0.9,scale_max=0")
        self.strategies.ask("update", *updates[0][:3], *updates[0][3])
        first = self.strategies.round(updates[1:])
        # The last one counts first; the driver visits in the order of counting, so compare what
        # depends on the totals alone: the same update beside different orders of the others.
        self.strategies.begin("fednova", "local_momentum=0.9,scale_max=0")
        second = self.strategies.round(updates[::-1])
        self.close_to(first, second)

    # --- Norms beside the others'

    def test_norm_bound(self):
        for most in [1, 1.5, 3]:
            shared = f"scale_max=2,norm_bound={most}"
            for momentum in [0, 0.9]:
                means = dict(local_momentum=momentum, scale_max=2, norm_bound=most)
                parameters = f"local_momentum={momentum},{shared}"
                self.compare("fednova", ref.Mean(1, **means), parameters)
                self.compare("fedavg", ref.Mean(**means), f"normalise=0,{parameters}")
                self.compare("fedbuff", ref.Buff(1, **means),
                             f"normalise=1,{parameters},staleness_max=10", stale=True)
            self.compare("fedavgm", ref.AvgM(0.9, norm_bound=most),
                         f"normalise=0,local_momentum=0,{shared},server_momentum=0.9")

    def test_one_update_moves_no_further_than_its_bound(self):
        honest = [(100, 20, 0, [1.0 + 0.01 * i] * COUNT) for i in range(4)]
        for large in [4.0, 1e3, 1e9, -1e9]:
            updates = honest + [(100, 20, 0, [large] * COUNT)]
            self.strategies.begin("fedavg", "normalise=0,local_momentum=0,scale_max=0,norm_bound=3")
            expected = (sum(u[3][0] for u in honest) + math.copysign(3 * 1.02, large)) / 5
            self.close_to(self.strategies.round(updates), [expected] * COUNT)

    def test_a_norm_bound_that_nobody_reaches_leaves_no_trace(self):
        """Nor does one with too few beside it, or where most have nothing to say."""
        rng = random.Random(19)
        few = [(1, 1, 0, [1.0] * COUNT), (1, 1, 0, [100.0] * COUNT)]
        silent = [(1, 1, 0, [0.0] * COUNT)] * 3 + few
        for updates in [random_round(rng) + random_round(rng), few, silent]:
            most = 4000 if len(updates) > 5 else 1
            self.assertEqual(self.bits(updates, "fednova", f"local_momentum=0,scale_max=2,norm_bound={most}"),
                             self.bits(updates, "fednova", "local_momentum=0,scale_max=2,norm_bound=0"))

    # --- Claims beside the others'

    def test_examples_bound(self):
        for most in [1, 1.5, 16]:
            means = dict(local_momentum=0.9, scale_max=2, norm_bound=3, examples_bound=most)
            parameters = f"local_momentum=0.9,scale_max=2,norm_bound=3,examples_bound={most}"
            self.compare("fednova", ref.Mean(1, **means), parameters)
            self.compare("fedavg", ref.Mean(**means), f"normalise=0,{parameters}")
            self.compare("fedbuff", ref.Buff(1, **means),
                         f"normalise=1,{parameters},staleness_max=10", stale=True)

    def test_a_claim_beyond_its_bound_is_one_at_its_bound(self):
        """To the bit, with the limit's 10M as well as with less, whoever it comes before."""
        honest = [(100 + i, 5 + i, 0, [1.0 + 0.01 * i] * COUNT) for i in range(4)]
        parameters = "local_momentum=0.9,scale_max=2,norm_bound=3"
        for place in [0, 2, 4]:
            def beside(claim):
                return honest[:place] + [(claim, 20, 0, [-1.0] * COUNT)] + honest[place:]
            at_bound = self.bits(beside(16 * 102), "fednova", f"{parameters},examples_bound=16")
            self.assertEqual(at_bound, self.bits(beside(16 * 102), "fednova", f"{parameters},examples_bound=0"))
            for claim in [16 * 102 + 1, 10_000_000]:
                self.assertEqual(at_bound, self.bits(beside(claim), "fednova", f"{parameters},examples_bound=16"))

    def test_what_one_claim_of_examples_and_of_few_steps_leaves(self):
        """The figures of docs/SECURITY.md: zeros of a client that claims 10M examples, and 20 steps or 1, beside others."""
        parameters = "normalise=1,local_momentum=0,scale_max=2,norm_bound=3,examples_bound="
        left = {2: (0.1111, 0.01728), 3: (0.1579, 0.0316), 4: (0.2, 0.048), 9: (0.36, 0.1411), 99: (0.8609, 0.7471)}
        for honest, figures in left.items():
            for steps, figure in zip((20, 1), figures):
                updates = [(1000, 20, 0, [1.0] * COUNT)] * honest + [(10_000_000, steps, 0, [0.0] * COUNT)]
                self.assertEqual(self.strategies.begin("fedavg", parameters + "16"), ["ok"])
                moved = self.strategies.round(updates)[0]
                self.assertLess(abs(moved - figure), 0.0001, (honest, steps, moved))
        updates = [(1000, 20, 0, [1.0] * COUNT)] * 3 + [(10_000_000, 1, 0, [0.0] * COUNT)]
        for most, normalise, figure in [(4, 1, 0.1959), (1, 1, 0.5719), (16, 0, 0.1579)]:
            self.strategies.begin("fedavg", parameters.replace("normalise=1", f"normalise={normalise}") + str(most))
            moved = self.strategies.round(updates)[0]
            self.assertLess(abs(moved - figure), 0.0001, (most, normalise, moved))

    def test_two_claims_have_no_middle(self):
        two = [(1, 1, 0, [1.0] * COUNT), (10_000_000, 1, 0, [-1.0] * COUNT)]
        parameters = "local_momentum=0,scale_max=2,norm_bound=0"
        self.assertEqual(self.bits(two, "fednova", f"{parameters},examples_bound=16"),
                         self.bits(two, "fednova", f"{parameters},examples_bound=0"))

    # --- Server optimisers

    def test_fedavgm(self):
        for beta in [0, 0.9, 0.99]:
            parameters = f"normalise=0,local_momentum=0,scale_max=0,server_momentum={beta}"
            self.compare("fedavgm", ref.AvgM(beta), parameters)
            strategy = ref.AvgM(beta, normalise=1)
            self.compare("fedavgm", strategy, parameters.replace("normalise=0", "normalise=1"), 0.1)

    def test_adaptive(self):
        plain = "normalise=0,local_momentum=0,scale_max=0,"
        for tau in [0.001, 0.1]:
            for beta1, beta2 in [(0.9, 0.99), (0, 0.5)]:
                parameters = plain + f"beta1={beta1},beta2={beta2},tau={tau}"
                for name, kind in [("fedadam", ref.Adam), ("fedyogi", ref.Yogi)]:
                    strategy = kind(tau, beta1, beta2)
                    self.compare(name, strategy, parameters, 0.05)
                    self.close_to(self.strategies.state(0), strategy.m)
                    self.close_to(self.strategies.state(1), strategy.v)
            strategy = ref.Adagrad(tau)
            self.compare("fedadagrad", strategy, plain + f"tau={tau}", 0.05)
            self.close_to(self.strategies.state(0), strategy.v)

    def test_qsvrg(self):
        """Epochs to their end, and one that ends early."""
        for steps, rounds in [(3, [0, 1] * 3), (4, [0, 1, 2, 0, 1, 0, 1, 2]), (9, [*range(8)] * 2)]:
            rng = random.Random(steps)
            reference, model = ref.Svrg(steps), [0.0] * COUNT
            for i, step in enumerate(rounds):
                parameters = f"examples_bound=0,epoch_steps={steps},epoch_step={step}"
                begin = self.strategies.begin if i == 0 else self.strategies.again
                self.assertEqual(begin("qsvrg", parameters), ["ok"])
                updates = random_round(rng)
                model = reference.round(model, updates, step == 0)
                self.close_to(self.strategies.round(updates), model)

    def test_states_begin_where_the_paper_says(self):
        self.strategies.begin("fedadam", "normalise=0,local_momentum=0,scale_max=0,beta1=0.9,"
                              "beta2=0.9,tau=0.1")
        self.close_to(self.strategies.state(0), [0.0] * COUNT)
        self.close_to(self.strategies.state(1), [0.01] * COUNT)

    # --- Coordinate by coordinate

    def test_fedmedian(self):
        self.compare("fedmedian", ref.median)

    def test_fedtrimmedavg(self):
        for percent in [0, 10, 20, 35, 49]:
            self.compare("fedtrimmedavg", ref.Trimmed(percent), f"trim={percent / 100}")

    def test_most_values_are_zero(self):
        """As after codecs that send few; some coordinates have just too many others."""
        rng = random.Random(14)
        for share in [0.2, 0.5, 0.8]:
            updates = random_round(rng) + random_round(rng)
            for *_, values in updates:
                values[:] = [value if rng.random() < share else 0.0 for value in values]
            for name, parameters, strategy in [("fedmedian", "-", ref.median),
                                               ("fedtrimmedavg", "trim=0.2", ref.Trimmed(20))]:
                for room in [5 * len(updates), ROOMY]:
                    self.strategies.begin(name, parameters, room=room)
                    self.close_to(self.strategies.round(updates), strategy(updates))

    def test_a_share_is_of_whole_updates(self):
        for percent, n, cut in [(20, 10, 2), (35, 20, 7), (10, 9, 0), (49, 3, 1)]:
            updates = [(1, 1, 0, [float(10 ** i)] * COUNT) for i in range(n)]
            kept = [10.0 ** i for i in range(cut, n - cut)]
            self.strategies.begin("fedtrimmedavg", f"trim={percent / 100}")
            self.close_to(self.strategies.round(updates), [sum(kept) / len(kept)] * COUNT)

    def test_less_memory_gives_the_same_bits(self):
        for name, parameters in [("fedmedian", "-"), ("fedtrimmedavg", "trim=0.2"),
                                 ("krum", "attackers=0.2"), ("multikrum", "attackers=0.2")]:
            updates = random_round(random.Random(5)) + random_round(random.Random(6))
            found = set()
            for room in [len(updates), 2 * len(updates) + 1, 6 * len(updates), 7 * len(updates), ROOMY]:
                self.strategies.begin(name, parameters, room=room)
                found.add(tuple(self.strategies.round(updates)))
            self.assertEqual(len(found), 1)

    def test_signs_of_zero(self):
        """-0 and 0 in either order: the same bits."""
        texts = set()
        for values in [[-0.0, 0.0, 0.0], [0.0, -0.0, 0.0], [0.0, 0.0, -0.0]]:
            self.strategies.begin("fedmedian")
            for value in values:
                self.strategies.ask("update", 1, 1, 0, *[repr(value)] * COUNT)
            texts.add(" ".join(self.strategies.ask("merge")))
        self.assertEqual(len(texts), 1)

    def test_claims_do_not_move_the_median(self):
        honest = [(100, 20, 0, [1.0] * COUNT) for _ in range(4)]
        hostile = [(1000000, 1000000, 0, [1e9] * COUNT) for _ in range(3)]
        self.strategies.begin("fedmedian")
        self.assertEqual(self.strategies.round(hostile + honest), [1.0] * COUNT)
        self.strategies.begin("fedtrimmedavg", "trim=0.45")
        self.assertEqual(self.strategies.round(hostile + honest), [1.0] * COUNT)

    # --- Whole updates

    def test_krum(self):
        for percent in [0, 10, 20, 35, 49]:
            for name, multi in [("krum", False), ("multikrum", True)]:
                self.compare(name, ref.Krum(percent, multi), f"attackers={percent / 100}")

    def test_krum_takes_one_of_the_honest(self):
        """Attackers that agree with each other, far away or near, with as many as may be: 2 f + 3 = n."""
        rng = random.Random(21)
        for name, most in [("krum", 1), ("multikrum", 4)]:
            for apart in [3.0, 1e4, 1e12]:
                honest = [(1, 1, 0, [rng.gauss(1, 0.1) for _ in range(COUNT)]) for _ in range(4)]
                hostile = [(10 ** 6, 10 ** 6, 0, [-apart] * COUNT) for _ in range(3)]
                self.strategies.begin(name, "attackers=0.3")
                found = self.strategies.round(hostile[:2] + honest + [honest[0]])
                self.assertTrue(all(0.5 < value < 1.5 for value in found), found)
                self.strategies.begin(name, "attackers=0.3")
                beyond = self.strategies.round(hostile * 2 + honest)
                self.assertFalse(all(0.5 < value < 1.5 for value in beyond), beyond)

    def test_krum_of_a_few(self):
        """With one or two there is nothing to compare; of three equal scores the first is taken."""
        for values in [[3.0], [5.0, 3.0], [1.0, 2.0, 4.0], [4.0, 3.0, 2.0]]:
            updates = [(1, 1, 0, [value] * COUNT) for value in values]
            self.strategies.begin("krum", "attackers=0.49")
            self.assertEqual(self.strategies.round(updates), ref.Krum(49)(updates))
            self.strategies.begin("multikrum", "attackers=0.49")
            self.close_to(self.strategies.round(updates), ref.Krum(49, True)(updates))
        same = [(1, 1, 0, [0.0] * COUNT)] * 3 + [(1, 1, 0, [1.0] * COUNT)] * 3
        self.strategies.begin("krum", "attackers=0")
        self.assertEqual(self.strategies.round(same), [0.0] * COUNT)
        self.strategies.begin("krum", "attackers=0")
        self.assertEqual(self.strategies.round(same[::-1]), [1.0] * COUNT)

    # --- Rows that cannot be read

    def test_parameters_that_are_not_known(self):
        for name, parameters in [
            ("fedfuture", "-"),
            ("fednova", "-"),
            ("fednova", "local_momentum=0"),
            ("fedavg", "local_momentum=0,scale_max=0"),
            ("fedadam", "beta1=0.9"),
            ("fedavg", "normalise=0,local_momentum=0,gamma=1"),
            ("fedavg", "normalise=2,local_momentum=0"),
            ("fedavg", "normalise=0,local_momentum=nan"),
            ("fednova", "local_momentum=0,scale_max=0,norm_bound=0.5"),
            ("fednova", "local_momentum=0,norm_bound=3"),
            ("fednova", "local_momentum=0,scale_max=0.5"),
            ("fednova", "local_momentum=0,scale_max=0.99999994"),
            ("fednova", "local_momentum=0,scale_max=1e-30"),
            ("fednova", "local_momentum=0,scale_max=-1"),
            ("fednova", "local_momentum=0,scale_max=nan"),
            ("fednova", "local_momentum=0,scale_max=inf"),
            ("fednova", "local_momentum=0,scale_max=1000001"),
            ("fedtrimmedavg", "trim=0.5"),
            ("qsvrg", "examples_bound=0,epoch_steps=5"),
            ("qsvrg", "examples_bound=0,epoch_steps=2,epoch_step=0"),
            ("krum", "-"),
            ("multikrum", "attackers=0.5"),
            ("fedtrimmedavg", "trim="),
            ("fedtrimmedavg", "trim=0.2x"),
            ("fedtrimmedavg", "trim"),
        ]:
            with self.subTest(name=name, parameters=parameters):
                self.assertEqual(self.strategies.begin(name, parameters), ["refused", "unknown"])


if __name__ == "__main__":
    DRIVER = sys.argv.pop(1)
    unittest.main()
