"""The commands of docs/RING.md, as they stand but for the ports, lead four peers to the same model."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from peers import BIN, PATIENCE, free_ports

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])


class Walkthrough(unittest.TestCase):
    def test_commands(self):
        text = (SOURCE / "docs/RING.md").read_text(encoding="utf-8")
        section = text.split("## Four peers on one machine")[1].split("\n## ")[0]
        script = "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S))
        for port, free in zip(range(7101, 7105), free_ports(4)):
            self.assertIn(str(port), script)
            script = script.replace(str(port), str(free))
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["bash", "-euc", script], cwd=folder, capture_output=True, text=True,
                                  timeout=PATIENCE, env=os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("the same bits", done.stdout)
            last = [line for line in done.stderr.splitlines() if "version=40 " in line]
            self.assertEqual(len(last), 1)
            self.assertGreater(float(re.search(r"accuracy=([\d.]+)", last[0]).group(1)), .7)
            example = re.search(r"^(event=round .*)$", section, re.M).group(1)
            keys = [part.split("=")[0] for part in example.split()]
            self.assertEqual(keys, [part.split("=")[0] for part in last[0].split()[2:]])
            print(last[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
