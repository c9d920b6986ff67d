"""PyTorch's models: files that a strict load_state_dict() takes, and a federation of a module with a batch norm."""
import pathlib
import sys
import tempfile
import unittest

import numpy
import torch
from torch import nn

import tern

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
import safetensors_file  # noqa: E402

CLASSES, FEATURES = 3, 8


def build():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES))


@tern.trainer(framework="torch")
def train(model, task):
    module, (points, labels) = build(), task.data
    module.load_state_dict(model, strict=False)  # all but the counter
    optimizer = torch.optim.SGD(module.parameters(), lr=task.learning_rate, momentum=task.momentum)
    total = 0.0
    for batch in task.batches(len(labels)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(points[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return module, len(labels), total / task.local_steps


@train.evaluation
def evaluate(model, task):
    module, (points, labels) = build().eval(), task.data
    module.load_state_dict(model, strict=False)
    with torch.no_grad():
        logits = module(points)
    loss = nn.functional.cross_entropy(logits, labels).item()
    return len(labels), loss, {"accuracy": (logits.argmax(dim=1) == labels).float().mean()}


class Torch(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "model.safetensors")

    def test_a_module_comes_back_strictly(self):
        module = build()
        module(torch.ones(4, FEATURES))  # counts
        tern.save_model(module, self.path)
        found = tern.load_model(self.path, "torch")
        self.assertEqual((found["1.num_batches_tracked"].dtype, found["1.num_batches_tracked"].item()), (torch.int64, 1))
        other = nn.Sequential(nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES))
        other.load_state_dict(found, strict=True)
        for name, values in module.state_dict().items():
            self.assertTrue(torch.equal(other.state_dict()[name], values), name)

    def test_dtypes_of_torch(self):
        values = [1.5, -2.0, 2.0**-100]
        tensors = {"bf16": torch.tensor(values, dtype=torch.bfloat16), "half": torch.tensor([0.5], dtype=torch.float16),
                   "turned": torch.arange(6.0).reshape(2, 3).t(), "needs": torch.ones(2, requires_grad=True),
                   "flags": torch.tensor([True]), "one": torch.tensor(2.0)}
        tern.save_model(tensors, self.path)
        by_hand, _ = safetensors_file.parse(self.path.read_bytes())
        self.assertEqual(by_hand["bf16"], ("BF16", [3], values))
        self.assertEqual(by_hand["turned"], ("F32", [3, 2], [0, 3, 1, 4, 2, 5]))
        found = tern.load_model(self.path, "torch")
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(found[name], tensor.detach().float() if name == "bf16" else tensor), name)
        self.assertEqual(tern.load_model(self.path)["one"].shape, ())

    def test_a_federation_of_a_module(self):
        random = numpy.random.default_rng(5)
        centres = random.normal(scale=2, size=(CLASSES, FEATURES))

        def draw(count):
            labels = random.integers(CLASSES, size=count)
            points = (centres[labels] + random.normal(size=(count, FEATURES))).astype(numpy.float32)
            return torch.from_numpy(points), torch.from_numpy(labels)

        test = draw(300)
        done = tern.simulate(build(), [draw(60) for _ in range(3)], train, test=test, rounds=6, progress=None,
                             settings={"train.local_steps": 10, "train.batch_size": 20, "train.learning_rate": 0.05})
        self.assertGreater(done.history()["accuracy"][-1], 0.8)
        module = build()
        tern.save_model(done.model, self.path)
        module.load_state_dict(tern.load_model(self.path, "torch"), strict=True)
        self.assertFalse(torch.equal(module[1].running_mean, torch.zeros(6)))  # statistics are averaged
        with torch.no_grad():
            right = (module.eval()(test[0]).argmax(dim=1) == test[1]).float().mean()
        self.assertAlmostEqual(right.item(), done.history()["accuracy"][-1], places=4)


if __name__ == "__main__":
    unittest.main()
