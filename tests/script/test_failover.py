"""./tern demo failover with few clients: the kills happen, the model is that of one aggregator, nothing is left behind
however it ends, and two models that differ fail it."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TERN_BUILD_DIR"])
sys.path.insert(0, str(SOURCE / "lab"))
sys.path.insert(0, str(SOURCE / "tests/postgres"))
import cluster  # noqa: E402
from failover.front import Front  # noqa: E402
from failover.programs import Failure, neighbour  # noqa: E402

CLIENTS = 16
SKIP = 77


class Failover(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tern-fo-"))
        self.folder.chmod(0o711)  # PostgreSQL does not run as root
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self):
        process = subprocess.Popen([SOURCE / "tern", "demo", "failover", "--clients", str(CLIENTS)], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "TMPDIR": str(self.folder)})
        self.addCleanup(self.stop, process)
        return process

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.terminate()
        process.communicate()

    def assert_nothing_is_left(self):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.folder).encode() in path.read_bytes():
                    found.append(path.read_bytes())
            except OSError:
                pass
        self.assertEqual(found, [])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_kills_change_nothing_of_the_model(self):
        process = self.start()
        out, err = process.communicate(timeout=500)
        self.assertEqual(process.returncode, 0, err + out)
        self.assertEqual(len(re.findall(r"round \d+: SIGKILL for \w+ \(process \d+\), which leads", out)), 2)
        self.assertRegex(out, r"round \d+: immediate shutdown of PostgreSQL")
        self.assertRegex(out, r"who led: +\w+ from round 1, \w+ from round \d")
        self.assertRegex(out, rf"{12 * CLIENTS} were acknowledged, {12 * CLIENTS} are stored")
        self.assertGreater(int(re.search(r"nginx had (\d+)", out)[1]), 10 * CLIENTS)
        one, other = re.findall(r"^([0-9a-f]{64})  ", out, re.MULTILINE)
        self.assertEqual(one, other)
        self.assertIn("one and the same model, to the bit", out)
        self.assert_nothing_is_left()

    def test_an_interrupt_stops_and_removes_everything(self):
        process = self.start()
        for line in process.stdout:
            if "SIGKILL for" in line:
                break
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 5, err)
        self.assert_nothing_is_left()

    def compare(self, one, other):
        for name, weights in (("one", one), ("other", other)):
            (self.folder / name).write_bytes(weights)
        return subprocess.run(
            ["bash", "-c", '. "$0/common.sh"; . "$0/experiment.sh"; compare_models A "$1/one" B "$1/other"',
             SOURCE / "cmake/verbs", self.folder], text=True, capture_output=True, check=False)

    def test_models_that_differ_by_a_bit_fail_it(self):
        self.assertEqual(self.compare(b"\0\0\0\0", b"\0\0\0\0").returncode, 0)
        done = self.compare(b"\0\0\0\0", b"\0\0\0\1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with different models", done.stderr)

    def test_downloads_are_counted_by_whether_nginx_had_them(self):
        front = Front.__new__(Front)
        front.folder = self.folder
        (self.folder / "downloads.log").write_text(
            "T 200 MISS 100 /v1/downloads/x\nT 200 HIT 100 /v1/downloads/x\nT 206 HIT 40 /v1/downloads/x\n"
            "T 503 - 6 /v1/downloads/x\n")
        self.assertEqual(front.downloads(), ({"MISS": 1, "HIT": 2}, {"MISS": 100, "HIT": 140}))


if __name__ == "__main__":
    try:
        neighbour(BUILD, "nginx", "usr/sbin/nginx")
    except Failure as failure:
        print(f"skipped: {failure}", file=sys.stderr)
        sys.exit(SKIP)
    if cluster.folder_of_programs() is None:
        print("skipped: there is no PostgreSQL here", file=sys.stderr)
        sys.exit(SKIP)
    unittest.main()
