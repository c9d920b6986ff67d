"""tern-client on the command line, without an aggregator: settings, exit codes, messages."""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM, EXAMPLE = sys.argv[1:3]
sys.argv[1:3] = []


def run(*arguments, text=None):
    done = subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True,
                          timeout=300)
    return done.returncode, done.stdout, done.stderr


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = os.path.join(folder.name, "state")
        self.sets = ["--set", "client.state_dir=" + self.state,
                     "--set", "client.server=https://127.0.0.1:1"]

    def test_example_file_is_what_the_program_documents(self):
        with open(EXAMPLE, encoding="utf-8") as example:
            self.assertEqual(run("--settings")[1], example.read())

    def test_example_file_loads(self):
        code, _, error = run("status", "--config", EXAMPLE, *self.sets)
        self.assertEqual(code, 1)
        self.assertIn(self.state, error)

    def test_no_server(self):
        for verb in (["run"], ["once"], ["enroll", "CODE"]):
            code, _, error = run(*verb, "--set", "client.state_dir=" + self.state)
            self.assertEqual(code, 2, error)
            self.assertIn("client.server", error)

    def test_plain_http_is_refused(self):
        code, _, error = run("once", *self.sets, "--set", "client.server=http://127.0.0.1:1")
        self.assertEqual(code, 2)
        self.assertIn("https://", error)

    def test_not_enrolled(self):
        code, _, error = run("run", *self.sets)
        self.assertEqual(code, 1)
        self.assertIn("enroll CODE", error)

    def test_empty_join_code(self):
        for code, text in (("", ""), ("-", ""), ("-", "\n")):
            status, _, error = run("enroll", *self.sets, code, text=text)
            self.assertEqual(status, 2)
            self.assertIn("join code is empty", error)

    def test_unreachable_aggregator(self):
        code, _, error = run("enroll", *self.sets, "-", text="CODE\n")
        self.assertEqual(code, 1)
        self.assertIn("https://127.0.0.1:1", error)

    def test_meter_shows_what_the_failed_enrolment_cost(self):
        run("enroll", *self.sets, "CODE")
        code, out, error = run("meter", "--json", *self.sets)
        self.assertEqual(code, 0, error)
        self.assertIn('"handshake"', out)

    def test_state_directory_in_use(self):
        os.makedirs(self.state)
        import fcntl
        with open(os.path.join(self.state, "lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            code, _, error = run("run", *self.sets)
        self.assertEqual(code, 1)  # no peer refused anything
        self.assertIn("in use by another process", error)

    def test_wrong_usage(self):
        self.assertEqual(run("enroll", *self.sets)[0], 2)
        self.assertEqual(run("fly", *self.sets)[0], 2)
        self.assertEqual(run("run", "--set", "client.nonsense=1")[0], 2)
        self.assertEqual(run("--help")[0], 0)


if __name__ == "__main__":
    signal.alarm(380)
    unittest.main()
