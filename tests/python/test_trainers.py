"""A function as a trainer: one task, many tasks of one process, answers that do not fit; and run by tern-client itself."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

import tern

CLIENT = pathlib.Path(os.environ["TERN_BIN_DIR"]) / "tern-client"
TRAIN = {"interface": 1, "kind": "train", "round": 3, "client": 2, "local_steps": 4, "batch_size": 8, "learning_rate": 0.5,
         "momentum": 0.0, "weight_decay": 0.0, "prox_mu": 0.1, "seed": 9}
MODEL = {"w": numpy.ones((2, 3), numpy.float32), "b": numpy.zeros(2, numpy.float32)}
PROGRAM = '''
import sys
import tern

starts = 0

def load():
    global starts
    starts += 1
    return 5.0

@tern.trainer(data=load)
def train(model, task):
    if task.round == 13:
        raise tern.TrainerError("thirteen\\nis not done")
    if task.round == 14:
        raise KeyError("fourteen")
    if task.round == 15:
        sys.exit("fifteen")
    model["fc1.bias"] += task.data
    return model, 10, 0.5, {"loads": starts, "round": task.round}

@train.evaluation
def evaluate(model, task):
    return 20, 0.25, {"accuracy": 0.75, "bias": float(model["fc1.bias"][0])}

if __name__ == "__main__":
    train.run()
'''


def unused(model, task):
    """A trainer that is only asked to evaluate."""
    raise AssertionError("it trains")


class Answers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        tern.save_model(MODEL, self.folder / "model.safetensors")
        tern.save_model(MODEL | {"b": MODEL["b"] + 7}, self.folder / "base.safetensors")

    def fields(self, **changed):
        paths = {name: str(self.folder / file) for name, file in
                 (("model", "model.safetensors"), ("base", "base.safetensors"), ("output", "trained.safetensors"),
                  ("result", "result.json"))}
        return TRAIN | paths | changed

    def do(self, train, evaluate=None, **changed):
        trainer = tern.trainer(train)
        if evaluate is not None:
            trainer.evaluation(evaluate)
        trainer.do(self.fields(**changed), "the data")
        return json.loads((self.folder / "result.json").read_text())

    def test_a_training(self):
        seen = []

        def train(model, task):
            seen.append(task)
            model["w"] -= task.learning_rate
            return model | {"bn.num_batches_tracked": numpy.array(3), "wide": numpy.zeros(1)}, 40, numpy.float32(0.5), {"f1": 1}

        self.assertEqual(self.do(train), {"num_examples": 40, "loss": 0.5, "metrics": {"f1": 1.0}})
        trained = tern.load_model(self.folder / "trained.safetensors")
        self.assertEqual(list(trained), ["w", "b"])
        self.assertEqual((trained["w"] == 0.5).all(), True)
        task = seen[0]
        self.assertEqual((task.kind, task.data, task.round, task.client, task.local_steps, task.seed),
                         ("train", "the data", 3, 2, 4, 9))
        self.assertEqual(task.base["b"].tolist(), [7, 7])

    def test_fewer_local_steps_are_told(self):
        done = self.do(lambda model, task: tern.Training(model, 1, 0.0, local_steps=3))
        self.assertEqual((done["local_steps"], done["metrics"]), (3, {}))

    def test_an_evaluation(self):
        done = self.do(unused, lambda model, task: (8, 1.5, {"accuracy": 0.5, "mae": 2}), kind="evaluate")
        self.assertEqual(done, {"num_examples": 8, "loss": 1.5, "accuracy": 0.5, "metrics": {"mae": 2.0}})
        self.assertEqual(self.do(unused, lambda model, task: (8, 1.5), kind="evaluate")["metrics"], {})

    def test_metrics_that_would_not_arrive_are_refused(self):
        """Those that the client does not send, or the aggregator does not keep: they would be missing in history()."""
        def evaluated(metrics):
            return self.do(unused, lambda model, task: (8, 1.5, metrics), kind="evaluate")

        cases = (({"balanced_accuracy": 1}, "'balanced_accuracy' has a name of 17 bytes, and 15 are sent at most"),
                 ({"\u00e4" * 8: 1}, "a name of 16 bytes"), ({"F1": 1}, "'F1' would not be kept"),
                 ({"top 5": 1}, "'top 5' would not"), ({"": 1}, "'' would not"), ({"model": 1}, "'model' would not"),
                 ({f"m{i}": i for i in range(5)}, r"5 metrics beside loss and accuracy \(m0, m1, m2, m3, m4\), and 4 are"))
        for metrics, says in cases:
            with self.subTest(says=says), self.assertRaisesRegex(tern.TrainerError, says):
                evaluated(metrics)
            self.assertFalse((self.folder / "result.json").exists())
        most = {"a_name_of_15_by": 1.0} | {f"m{i}": 1.0 for i in range(3)}
        self.assertEqual(evaluated(most | {"accuracy": 1, "loss": 2})["metrics"], most | {"loss": 2.0})
        trained = self.do(lambda model, task: (model, 1, 0.0, {"balanced_accuracy": 1, "F1": 2}))
        self.assertEqual(trained["metrics"], {"balanced_accuracy": 1.0, "F1": 2.0})  # for the client's log

    def test_answers_that_do_not_fit_are_refused_and_nothing_is_written(self):
        def of(model=None, count=5, loss=0.5, metrics=()):
            return lambda given, task: (given | (model or {}), count, loss, dict(metrics))

        cases = ((of({"w": numpy.ones((3, 2))}), r"'w' has the shape \[3, 2\]; the model's is \[2, 3\]"),
                 (of({"b": numpy.array([1, math.nan])}), "'b' has values that are not finite"),
                 (of({"more": numpy.zeros(2, numpy.float32)}), "a tensor 'more' that the federation's has not"),
                 (lambda model, task: ({"w": model["w"]}, 5, 0.5), "lacks the tensor 'b'"),
                 (of(count=0), "num_examples is 0"), (of(count=2.5), "num_examples is 2.5"),
                 (of(loss=math.inf), "the loss is inf: did the training diverge"),
                 (of(metrics={"f1": math.nan}), "the metric f1 is nan"))
        for train, says in cases:
            with self.subTest(says=says), self.assertRaisesRegex(tern.TrainerError, says):
                self.do(train)
            self.assertFalse((self.folder / "result.json").exists())
            self.assertFalse((self.folder / "trained.safetensors").exists())
        with self.assertRaisesRegex(tern.TrainerError, "interface 1, and not 2"):
            self.do(of(), interface=2)
        with self.assertRaisesRegex(tern.TrainerError, "does not evaluate"):
            self.do(of(), kind="evaluate")

    def test_a_tensor_of_another_name_is_named(self):
        """For example, a trainer of `weight` on a built-in model."""
        with self.assertRaisesRegex(tern.TrainerError, "no tensor 'weight'; it has w, b"):
            self.do(lambda model, task: (model["weight"], 1, 0.0))
        with self.assertRaisesRegex(tern.TrainerError, "no tensor 'weight'; it has w, b"):
            self.do(unused, lambda model, task: (1, float(model["weight"].sum())), kind="evaluate")

    def test_batches_follow_from_the_seed(self):
        seen = {}

        def train(model, task):
            seen["batches"] = [batch.tolist() for batch in task.batches(20)]
            seen["small"] = [sorted(batch.tolist()) for batch in task.batches(3)]
            with self.assertRaises(ValueError):
                list(task.batches(0))
            return model, 1, 0.0

        self.do(train)
        first = seen["batches"]
        self.assertEqual([len(batch) for batch in first], [8] * 4)
        self.assertEqual(len(set(first[0] + first[1])), 16)  # an epoch repeats nothing
        self.assertTrue(set(first[0] + first[1] + first[2]) <= set(range(20)))
        self.assertEqual(seen["small"], [[0, 1, 2]] * 4)
        self.do(train)
        self.assertEqual(seen["batches"], first)
        self.do(train, seed=10)
        self.assertNotEqual(seen["batches"], first)

    def test_it_is_still_a_function(self):
        @tern.trainer
        def train(model, task):
            """Says what it does."""
            return model, task, 0.0

        self.assertEqual(train("m", "t"), ("m", "t", 0.0))
        self.assertEqual((train.__name__, train.__doc__), ("train", "Says what it does."))
        with self.assertRaises(ValueError):
            tern.trainer(framework="jax")(train)


class Program(unittest.TestCase):
    """The same as a process of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "trainer.py"
        self.program.write_text(PROGRAM)
        self.config = self.folder / "client.ini"
        # In the file, since the client's own environment is what its trainer has.
        self.config.write_text("[client]\ntrainer = command\n"
                               f"trainer_command = '{sys.executable}' '{self.program}'\nstate_dir = {self.folder}/state\n")

    def task(self, number, **changed):
        folder = self.folder / f"task-{number}"
        folder.mkdir()
        model = {"fc1.weight": numpy.zeros((2, 3), numpy.float32), "fc1.bias": numpy.zeros(2, numpy.float32)}
        tern.save_model(model, folder / "model.safetensors")
        paths = {"model": str(folder / "model.safetensors"), "output": str(folder / "out.safetensors"),
                 "result": str(folder / "result.json")}
        (folder / "task.json").write_text(json.dumps(TRAIN | paths | {"round": number} | changed))
        return folder / "task.json"

    def persistent(self, *paths):
        """Its answers on descriptor 3, and what it said."""
        read, write = os.pipe()
        command = ["sh", "-c", f"exec 3>&{write}; exec \"$@\"", "sh", sys.executable, str(self.program)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=os.environ | {"TERN_PERSISTENT": "1"}, pass_fds=[write]) as process:
            os.close(write)
            said = process.communicate("".join(f"{path}\n" for path in paths), timeout=60)[0]
        with os.fdopen(read) as answers:
            return answers.read().splitlines(), said, process.returncode

    def test_a_persistent_one_loads_once_and_answers_each_task(self):
        paths = [self.task(1), self.task(13), self.task(14), self.task(15), self.task(2)]
        answers, said, code = self.persistent(*paths)
        self.assertEqual(answers, ["done", "failed: thirteen is not done", "failed: KeyError: 'fourteen'",
                                   "failed: SystemExit: fifteen", "done"])
        self.assertEqual(code, 0)
        self.assertIn('raise KeyError("fourteen")', said)  # the traceback, for the client's log
        last = json.loads((self.folder / "task-2" / "result.json").read_text())
        self.assertEqual(last["metrics"], {"loads": 1.0, "round": 2.0})

    def test_one_task_and_none(self):
        command = [sys.executable, self.program]
        subprocess.run([*command, self.task(1)], check=True)
        self.assertTrue((self.folder / "task-1" / "result.json").exists())
        refused = subprocess.run([*command, self.task(13)], capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr), (1, "failed: thirteen is not done\n"))
        self.assertIn("train-check", subprocess.run(command, capture_output=True, text=True).stderr)

    def test_tern_client_runs_it(self):
        for persistent in ("no", "yes"):
            done = subprocess.run([CLIENT, "train-check", "softmax:3-2", "--config", self.config, "--set",
                                   f"client.trainer_persistent={persistent}"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("changed by up to 5", done.stdout)
            self.assertIn("accuracy 0.7500", done.stdout)
            self.assertIn("loads=1", done.stdout)


if __name__ == "__main__":
    unittest.main()
