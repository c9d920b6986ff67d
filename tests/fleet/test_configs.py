"""configs/fleet.example.ini is what tern-fleet prints, and both programs load every experiment."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["TERN_BIN_DIR"])


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


class Configs(unittest.TestCase):
    def test_the_example_documents_every_setting(self):
        printed = run(BIN / "tern-fleet", "--settings").stdout
        self.assertEqual(printed, (SOURCE / "configs/fleet.example.ini").read_text(),
                         "tern-fleet --settings > configs/fleet.example.ini makes it anew")

    def loads_in_fleet(self, path):
        done = run(BIN / "tern-fleet", "run", "--config", path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("fleet.server and fleet.join_code must be set", done.stderr)

    def test_every_config_of_the_fleet_loads(self):
        self.loads_in_fleet(SOURCE / "configs/fleet.example.ini")
        experiments = sorted((SOURCE / "configs/experiments").glob("*.ini"))
        self.assertGreaterEqual(len(experiments), 3)
        for path in experiments:
            self.loads_in_fleet(path)
            with tempfile.TemporaryDirectory() as folder:
                done = run(BIN / "tern-aggregator", "init", "--config", path, "--set",
                           f"federation.state={folder}/state")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_one_file_may_have_the_sections_of_all_programs(self):
        names = ("tern-aggregator", "tern-client", "tern-fleet")
        sections = set()
        for name in names:
            sections |= set(re.findall(r"^\[\w+\]$", run(BIN / name, "--settings").stdout, re.M))
        self.assertGreater(len(sections), 12)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "all.ini")
            path.write_text("\n".join(sorted(sections)) + "\n")
            self.loads_in_fleet(path)
            done = run(BIN / "tern-aggregator", "init", "--config", path, "--set",
                       f"federation.state={folder}/state")
            self.assertEqual(done.returncode, 0, done.stderr)
            done = run(BIN / "tern-client", "status", "--config", path, "--set",
                       f"client.state_dir={folder}/client")
            self.assertNotIn("section", done.stderr)


if __name__ == "__main__":
    unittest.main()
