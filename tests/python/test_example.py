"""The examples of docs/examples/python, from start to end as they stand."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tern

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "python"


class Examples(unittest.TestCase):
    def test_softmax(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, EXAMPLES / "softmax.py"], cwd=folder, capture_output=True, text=True,
                                  env=os.environ, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(re.findall(r"^round \d+: 8 updates, mean loss [\d.]+$", done.stdout, re.M)), 8, done.stdout)
            found = re.search(r"^accuracy ([\d.]+) before, ([\d.]+) after 8 rounds$", done.stdout, re.M)
            self.assertLess(float(found[1]), 0.4)
            self.assertGreater(float(found[2]), 0.9)
            self.assertEqual(set(tern.load_model(pathlib.Path(folder, "softmax.safetensors"))), {"weight", "bias"})


if __name__ == "__main__":
    unittest.main()
