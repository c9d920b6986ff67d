"""bench-lgc from its words to its JSON, and the table that lab/bench/lgc.py makes of such figures."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
PROGRAM = pathlib.Path(os.environ["TERN_BUILD_DIR"]) / "bench-bin" / "bench-lgc"
sys.path.insert(0, str(SOURCE / "lab" / "bench"))
import lgc  # noqa: E402

SMALL = ["model=mlp:256-16-40-10", "data=digits:train=400,test=100,size=16,seed=1", "clients=3", "rounds=30", "exact=5",
         "training=10", "density=0.02", "accept=100", "width=4"]


def run(*words):
    return subprocess.run([PROGRAM, *SMALL, *words], capture_output=True, text=True)


def figures(*words):
    done = run(*words)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Program(unittest.TestCase):
    def test_every_form_comes_to_codes(self):
        for form in ("server", "ring-mean", "ring-gather"):
            told = figures("scheme=lgc-" + form)
            self.assertEqual(told["coded_from"], 16, form)
            self.assertEqual([told["phases"][name]["rounds"] for name in ("exact", "training", "coded")], [5, 10, 15])
            self.assertGreater(told["bits_autoencoder"], 0)
            if form != "ring-mean":
                self.assertLess(told["unaccounted"], 1e-6)

    def test_leaders_send_more_than_others(self):
        coded = figures()["phases"]["coded"]
        self.assertGreater(coded["leader_bits_up"], coded["follower_bits_up"])
        mean = (coded["leader_bits_up"] + 2 * coded["follower_bits_up"]) / 3
        self.assertAlmostEqual(mean, coded["bits_up"], places=6)

    def test_updates_of_leaders_may_be_lost(self):
        told = figures("lose=1")
        self.assertLess(told["unaccounted"], 1e-6)
        self.assertEqual(told["refused"], 0)

    def test_a_client_comes_late(self):
        early, late = figures(), figures("late=20")
        given = [told["phases"]["coded"]["down"]["weights"] for told in (early, late)]
        self.assertEqual(given[0], given[1])
        self.assertLess(late["phases"]["coded"]["up"]["innovation"], early["phases"]["coded"]["up"]["innovation"])

    def test_a_codec_is_measured_likewise(self):
        told = figures("scheme=codec:float32")
        self.assertAlmostEqual(told["bits_up"], 32, delta=0.2)
        sparse = figures("scheme=codec:density:p=0.02")
        self.assertLess(sparse["bits_up"], 0.5)

    def test_weights_may_diverge(self):
        told = figures("model=mlp:256-16-256,loss=reconstruction", "rate=1000", "rate_final=1000", "scheme=codec:float32")
        self.assertGreater(told["diverged_in"], 1)
        self.assertEqual(lgc.row("lgc", told, told)[1], "diverged in round %d" % told["diverged_in"])

    def test_words_that_are_wrong_are_named(self):
        for word, said in (("densty=1", "densty=1"), ("density=2", "density=2: use a number from"),
                           ("clients=1.5", "a whole number"), ("scheme=lgc", "lgc-server, lgc-ring-mean"),
                           ("scheme=codec:3lc:s=2", "s is 1 to"), ("rounds", "'rounds'")):
            done = run(word)
            self.assertEqual(done.returncode, 2, word)
            self.assertIn(said, done.stderr)
        done = run("model=softmax:256-10")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this model", done.stderr)


class Table(unittest.TestCase):
    def test_rows_have_bits_with_and_without_the_autoencoder(self):
        plain = {"accuracy": 0.75, "bits_up": 32.0, "bits_autoencoder": 0, "bits_down": 32.0}
        coded = {"accuracy": 0.7, "bits_up": 1.0, "bits_autoencoder": 1.0, "bits_down": 2.0,
                 "phases": {"coded": {"leader_bits_up": 0.5, "follower_bits_up": 0.25, "bits_up": 0.3}}}
        self.assertEqual(lgc.row("lgc", coded, plain),
                         ["lgc", "0.7000", "-5.00", "1.000", "2.000", "16.0", "0.500 / 0.250", "64 / 128", "2.000"])
        self.assertEqual(lgc.row("float32", plain, plain)[5:8], ["1.0", "", ""])
        never = {**coded, "phases": {"coded": {"bits_up": 0}}}
        self.assertEqual(lgc.row("lgc", never, plain)[6:8], ["", ""])
        width = {line.count("|") for line in lgc.markdown([lgc.row("lgc", coded, plain)])}
        self.assertEqual(len(width), 1)

    def test_every_scheme_is_one_that_the_program_knows(self):
        task = {**lgc.TASKS["cnn"], "rounds": 2, "exact": 1, "training": 1, "clients": 2, "width": 4}
        for name, scheme, settings in lgc.schemes(task):
            told = lgc.run(PROGRAM, "digits:train=200,test=50,size=28,seed=1", task, scheme, settings)
            self.assertEqual(told["rounds"], 2, name)


if __name__ == "__main__":
    unittest.main()
