"""tern-ring's example settings, and what it says of settings that are wrong, before anything is sent."""
import os
import pathlib
import subprocess
import unittest

from peers import BIN, PATIENCE, Ring

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])


class Settings(unittest.TestCase):
    def test_the_example_is_what_the_program_prints(self):
        printed = subprocess.run([BIN / "tern-ring", "--settings"], capture_output=True, text=True, check=True,
                                 timeout=PATIENCE).stdout
        self.assertEqual(printed, (SOURCE / "configs/ring.example.ini").read_text(encoding="utf-8"))

    def test_what_is_wrong_is_named(self):
        with Ring(2) as ring:
            lists = {"empty": ("", "at least two peers"), "one": ("a 127.0.0.1 7000\n", "at least two peers"),
                     "twice": ("a h 1\na h 2\n", "line 2: another peer already has this name"),
                     "place": ("a h 1\nb g 1\nc h 2\nd g 1\n",
                               "line 4: b already has this address and port; give each peer its own port"),
                     "port": ("a h 1\nb h 65536\n", "line 2: an address has at most 127 bytes, and a port"),
                     "words": ("a h 1\nb h\n", "line 2: write NAME ADDRESS PORT"),
                     "some": ("a h 1 west\nb h 2\n", "line 2: give every peer a group"),
                     "more": ("a h 1\nb h 2 west\n", "line 2: give every peer a group"),
                     "five": ("a h 1 west east\n", "line 1: write NAME ADDRESS PORT"),
                     "many": ("".join(f"p{i} h {i + 1}\n" for i in range(65)), "at most 64 peers"),
                     "others": ("a h 1\nb h 2\n", 'names "p0", which is not a peer')}
            for file, (text, said) in lists.items():
                (ring.folder / file).write_text(text)
                self.refused(ring, said, **{"ring.peers": file})
            for key, value, said in (("ring.peers", "nowhere", "nowhere cannot be read"),
                                     ("ring.codec", "dgc", "a ring cannot use dgc"), ("ring.codec", "no", "ring.codec: "),
                                     ("ring.model", "mlp:3", "is not a built-in model"),
                                     ("ring.model", "mlp:24-4-3", "mlp:24-4-3 predicts 3 classes, the data has 8"),
                                     ("ring.ca", "nowhere.crt", "ring.ca: nowhere.crt cannot be read"),
                                     ("ring.ca", "p0.key", "ring.ca: p0.key is not a certificate in PEM"),
                                     ("ring.certificate", "", "ring.certificate: is not set"),
                                     ("ring.key", "p1.key", "does not belong to ring.certificate"),
                                     ("ring.key", "ca.crt", "is not a PEM key"),
                                     ("ring.listen", "203.0.113.1", "cannot listen on 203.0.113.1"),
                                     ("ring.log", "loud", "log = 'loud' is not known; allowed: error | warn | info | debug"),
                                     ("data.source", "csv:nowhere.csv", "data.source: ")):
                self.refused(ring, said, **{key: value})

    def refused(self, ring, said, **values):
        done = ring.verb("p0", "run", **values)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(said, done.stderr)

    def test_a_state_directory_is_one_peer_s(self):
        with Ring(2) as ring:
            ring.start("p0")
            ring.wait_for("p0", "event=started")
            second = ring.verb("p1", "run", **{"ring.state_dir": "state-p0"})
            self.assertEqual(second.returncode, 1, second.stderr)
            self.assertIn("state-p0 is in use by another tern-ring; give each peer its own ring.state_dir",
                          second.stderr)
            self.assertNotIn("event=started", second.stderr)
            self.assertEqual(ring.verb("p0", "status").returncode, 0)  # who looks is let
            ring.processes["p0"].kill()
            ring.processes["p0"].wait()
            ring.start("p1", **{"ring.state_dir": "state-p0"})
            ring.wait_for("p1", "event=started")

    def test_faults_of_the_state_directory_have_the_system_s_reason(self):
        with Ring(2) as ring:
            (ring.folder / "file").touch()
            (ring.folder / "used/state").mkdir(parents=True)
            (ring.folder / "locked/lock").mkdir(parents=True)
            for state, said in (("file/state", "ring.state_dir: file/state cannot be made: Not a directory"),
                                ("used", "used/state cannot be read: it is not a file"),
                                ("locked", "locked/lock: Is a directory")):
                done = ring.verb("p0", "run", **{"ring.state_dir": state})
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(said, done.stderr)

    def test_a_state_of_another_ring_is_not_touched(self):
        with Ring(2, **{"ring.rounds": 2}) as ring:
            ring.start()
            ring.finish()
            before = (ring.folder / "state-p0/state").read_bytes()
            self.refused(ring, "name another ring.state_dir", **{"ring.seed": 5})
            self.refused(ring, "name another ring.state_dir", **{"ring.model": "mlp:24-16-8"})
            self.assertEqual((ring.folder / "state-p0/state").read_bytes(), before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
