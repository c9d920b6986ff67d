"""A client as Flower's NumPyClient is shaped, unchanged, as a trainer. flwr is no Debian package, so it is not what
is run here: the classes below have its methods, arguments and results."""
import json
import pathlib
import tempfile
import unittest

import numpy

import tern

TASK = {"interface": 1, "round": 3, "client": 2, "local_steps": 4, "batch_size": 8, "learning_rate": 0.5,
        "momentum": 0.25, "weight_decay": 0.0, "prox_mu": 0.125, "seed": 9}
NAMES = ["fc.weight", "bn.num_batches_tracked", "fc.bias"]


class NumPyClient:
    """Methods as of flwr.client.NumPyClient; with a model of two weights and a counter, which drifts to `target`."""

    def __init__(self, target):
        self.target = numpy.asarray(target, numpy.float32)
        self.arrays = [numpy.zeros((1, 2), numpy.float32), numpy.array(5, numpy.int64), numpy.zeros(1)]
        self.configs = []

    def get_parameters(self, config):
        return self.arrays

    def set_parameters(self, parameters):
        for given, own in zip(parameters, self.arrays, strict=True):
            assert given.dtype == own.dtype and given.shape == own.shape
        self.arrays = parameters

    def fit(self, parameters, config):
        self.set_parameters(parameters)
        self.configs.append(config)
        self.arrays = [self.arrays[0] + config["learning_rate"] * (self.target - self.arrays[0]), self.arrays[1] + 1,
                       self.arrays[2] + 0.5]
        return self.get_parameters(config={}), 40, {"loss": self.off(), "note": "text", "bytes": b"x"}

    def evaluate(self, parameters, config):
        self.set_parameters(parameters)
        return self.off(), 20, {"accuracy": 0.75, "mae": self.off()}

    def off(self):
        return float(numpy.abs(self.target - self.arrays[0]).mean())


class Quiet(NumPyClient):
    """One that tells no loss, and takes no config, as older ones."""

    examples = 20

    def get_parameters(self, config=None):
        return self.arrays

    def fit(self, parameters, config):
        arrays, count, _ = super().fit(parameters, config)
        return arrays, count, {"local_steps": 2}

    def evaluate(self, parameters, config):
        loss, _, metrics = super().evaluate(parameters, config)
        return loss, self.examples, metrics


class Flower(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def do(self, trainer, kind, model):
        """As tern-client would: the floats alone."""
        floats = {name: values for name, values in model.items() if numpy.asarray(values).dtype.kind == "f"}
        tern.save_model({name: numpy.asarray(values, numpy.float32) for name, values in floats.items()},
                        self.folder / "model.safetensors")
        paths = {"model": str(self.folder / "model.safetensors"), "output": str(self.folder / "out.safetensors"),
                 "result": str(self.folder / "result.json")}
        trainer.do(TASK | paths | {"kind": kind})
        return json.loads((self.folder / "result.json").read_text())

    def test_fit_and_evaluate(self):
        client = NumPyClient([[4, -4]])
        start = tern.flower.initial_model(client, NAMES)
        self.assertEqual(list(start), NAMES)
        self.assertEqual(start["bn.num_batches_tracked"].dtype, numpy.int64)
        self.assertEqual(start["fc.bias"].dtype, numpy.float32)  # which is trained, and float64 is not
        trainer = tern.flower.trainer(client, NAMES)
        done = self.do(trainer, "train", start)
        self.assertEqual(done, {"num_examples": 40, "loss": 2.0, "metrics": {"loss": 2.0}})
        trained = tern.load_model(self.folder / "out.safetensors")
        self.assertEqual({name: values.tolist() for name, values in trained.items()},
                         {"fc.weight": [[2, -2]], "fc.bias": [0.5]})
        self.assertEqual(client.configs, [{"server_round": 3, "local_steps": 4, "batch_size": 8, "learning_rate": 0.5,
                                           "momentum": 0.25, "weight_decay": 0.0, "proximal_mu": 0.125, "seed": 9}])
        done = self.do(trainer, "evaluate", trained)
        self.assertEqual(done, {"num_examples": 20, "loss": 2.0, "accuracy": 0.75, "metrics": {"mae": 2.0}})
        self.assertEqual(client.arrays[1], 6)  # its own counter

    def test_names_are_made_where_none_are_given(self):
        client = NumPyClient([[1, 1]])
        self.assertEqual(list(tern.flower.initial_model(client)), ["0000", "0001", "0002"])
        self.do(tern.flower.trainer(client), "train", tern.flower.initial_model(client))
        self.assertEqual(list(tern.load_model(self.folder / "out.safetensors")), ["0000", "0002"])

    def test_a_loss_that_fit_does_not_tell_is_measured(self):
        client = Quiet([[4, -4]])
        done = self.do(tern.flower.trainer(client, NAMES), "train", tern.flower.initial_model(client, NAMES))
        self.assertEqual((done["loss"], done["local_steps"]), (2.0, 2))
        client.examples = 0
        with self.assertRaisesRegex(tern.TrainerError, "a loss is needed"):
            self.do(tern.flower.trainer(client, NAMES), "train", tern.flower.initial_model(client, NAMES))

    def test_models_that_do_not_fit_are_refused(self):
        client = NumPyClient([[1, 1]])
        with self.assertRaisesRegex(ValueError, "has 3 arrays, and there are 2 different names"):
            tern.flower.initial_model(client, ["a", "b"])
        with self.assertRaisesRegex(tern.TrainerError, "no array for the tensor 'fc1.weight'"):
            self.do(tern.flower.trainer(client, NAMES), "train", {"fc1.weight": numpy.zeros(2)})

    def test_a_federation_of_them(self):
        """Two clients, made of their data as by Flower's client_fn; the model ends between what they drift to."""
        targets = [[[1.0, 0.0]], [[0.0, 2.0]]]
        done = tern.simulate(tern.flower.initial_model(NumPyClient([[0, 0]]), NAMES), targets,
                             tern.flower.trainer(NumPyClient, NAMES), test=targets[0], rounds=12, progress=None,
                             settings={"train.learning_rate": 0.5, "codec.codec": "float32", "codec.codec_down": "float32",
                                       "round.strategy": "fedavg"})
        self.assertEqual(done.model["bn.num_batches_tracked"], 5)
        self.assertEqual(done.model["bn.num_batches_tracked"].dtype, numpy.int64)
        numpy.testing.assert_allclose(done.model["fc.weight"], [[0.5, 1.0]], atol=0.01)
        numpy.testing.assert_allclose(done.model["fc.bias"], [6.0], atol=1e-5)
        self.assertEqual(done.history()["accuracy"][-1], 0.75)


if __name__ == "__main__":
    unittest.main()
