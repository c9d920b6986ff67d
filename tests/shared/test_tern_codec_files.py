#!/usr/bin/env python3
"""The files that tern-codec reads and writes: devices, links, files named twice, error buffers.

    test_tern_codec_files.py TERN_CODEC
"""

import math
import os
import stat
import subprocess
import threading

from tern_codec_case import TernCodecCase, floats, main, safetensors


class Outputs(TernCodecCase):
    def test_devices_stay_devices(self):
        path = self.put("in.f32", floats(1, 2))
        self.run_program("encode", "3lc", path, "/dev/null")
        done = self.run_program("encode", "3lc", path, "/dev/full", code=1)
        self.assertIn("cannot write /dev/full: No space left", done.stderr)
        self.run_program("decode", path, "/dev/full", "--count", "2", code=1)
        for device in ("/dev/null", "/dev/full"):
            self.assertTrue(stat.S_ISCHR(os.stat(device).st_mode), device)

    def test_pipe_gets_the_payload(self):
        path = self.put("in.f32", floats(2, -2, 0.5))
        self.run_program("encode", "3lc", path, self.path("out.tern"))
        os.mkfifo(self.path("pipe"))
        got = []
        reader = threading.Thread(target=lambda: got.append(self.get("pipe")), daemon=True)
        reader.start()
        self.run_program("encode", "3lc", path, self.path("pipe"))
        reader.join(30)
        self.assertEqual(got, [self.get("out.tern")])
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))

    def test_links_are_followed(self):
        path = self.put("in.f32", floats(2, -2, 0.5))
        self.run_program("encode", "3lc", path, self.path("out.tern"))
        os.mkdir(self.path("folder"))
        self.put("folder/old", b"old")
        for target in ("folder/old", "folder/new"):
            link = self.path("link to " + os.path.basename(target))
            os.symlink(target, link)
            self.run_program("encode", "3lc", path, link)
            self.assertTrue(os.path.islink(link))
            self.assertFalse(os.path.islink(self.path(target)))
            self.assertEqual(self.get(target), self.get("out.tern"))
        self.assertEqual(sorted(os.listdir(self.path("folder"))), ["new", "old"])

    def test_link_to_a_device_is_followed(self):
        path = self.put("in.f32", floats(1))
        os.symlink("/dev/full", self.path("link"))
        self.run_program("encode", "3lc", path, self.path("link"), code=1)
        self.assertTrue(os.path.islink(self.path("link")))

    def test_link_into_nowhere_fails(self):
        path = self.put("in.f32", floats(1))
        os.symlink("no/such/folder", self.path("link"))
        os.symlink("circle", self.path("circle"))
        for name in ("link", "circle"):
            self.run_program("encode", "3lc", path, self.path(name), code=1)
            self.assertTrue(os.path.islink(self.path(name)))

    def test_lost_state_takes_back_the_payload_but_no_pipe_or_link(self):
        path = self.put("in.f32", floats(1))
        rest = ("--error-buffer", self.path("no/such/folder"))
        os.symlink("target", self.path("link"))
        self.run_program("encode", "3lc", path, self.path("link"), *rest, code=1)
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertFalse(os.path.exists(self.path("target")))
        os.mkfifo(self.path("pipe"))
        end = os.open(self.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, end)
        self.run_program("encode", "3lc", path, self.path("pipe"), *rest, code=1)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))

    def test_safetensors_need_names(self):
        raw = self.put("in.f32", floats(1, 2))
        out = self.path("out.safetensors")
        self.run_program("encode", "float32", raw, self.path("out.tern"))
        for size in (("--count", "2"), ("--like", raw)):
            done = self.run_program("decode", self.path("out.tern"), out, *size, code=2)
            for word in ("out.safetensors", "--like", ".f32"):
                self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists(out))


class SameFile(TernCodecCase):
    def refused(self, first, second, *arguments):
        """Both roles are named, and the files of the folder stay as they are."""
        before = {name: self.get(name) for name in os.listdir(self.folder)}
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in (first, second, "same file"):
            self.assertIn(word, done.stderr)
        self.assertEqual({name: self.get(name) for name in os.listdir(self.folder)}, before)

    def test_encode(self):
        self.put("in.f32", floats(1, 2))
        self.put("rest", floats(0, 0))
        os.symlink("in.f32", self.path("soft"))
        os.link(self.path("in.f32"), self.path("hard"))
        for other in ("in.f32", "./in.f32", self.path("in.f32"), "soft", "hard"):
            self.refused("IN in.f32", "OUT " + other, "encode", "3lc", "in.f32", other)
            self.refused("IN in.f32", "--error-buffer " + other,
                         "encode", "3lc", "in.f32", "z", "--error-buffer", other)
        self.refused("OUT rest", "--error-buffer rest",
                     "encode", "3lc", "in.f32", "rest", "--error-buffer", "rest")

    def test_files_that_are_not_there_yet(self):
        self.put("in.f32", floats(1, 2))
        for other in ("rest", "./rest", self.path("rest")):
            self.refused("OUT rest", "--error-buffer " + other,
                         "encode", "3lc", "in.f32", "rest", "--error-buffer", other)

    def test_decode(self):
        self.put("in.safetensors", safetensors([("a", "F32", [2], [1, 2])]))
        self.run_program("encode", "3lc", self.path("in.safetensors"), self.path("out.tern"))
        like = ("--like", "in.safetensors")
        self.refused("IN out.tern", "OUT out.tern", "decode", "out.tern", "out.tern", *like)
        self.refused("--like in.safetensors", "OUT in.safetensors",
                     "decode", "out.tern", "in.safetensors", *like)

    def test_standard_input(self):
        path = self.put("in.f32", floats(1, 2))
        with open(path, "rb") as file:
            done = subprocess.run([self.program, "encode", "3lc", "-", path], stdin=file,
                                  capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(self.get("in.f32"), floats(1, 2))

    def test_devices_may_be_given_twice(self):
        self.run_program("encode", "3lc", "/dev/null", "/dev/null")


class ErrorBuffer(TernCodecCase):
    def encode_with(self, rest, values, spec="3lc"):
        self.put("rest.f32", floats(*rest))
        done = self.encode(spec, values, "--error-buffer", self.path("rest.f32"), code=1)
        self.assertEqual(self.get("rest.f32"), floats(*rest))
        self.assertFalse(os.path.exists(self.path("out.tern")))
        return done.stderr

    def test_bad_value_is_named(self):
        for bad, word in ((math.nan, "nan"), (math.inf, "inf")):
            error = self.encode_with([0, 1, bad], [1, 2, 3])
            self.assertRegex(error, r"rest\.f32: value 2 is -?" + word)

    def test_bad_velocity_is_named(self):
        error = self.encode_with([0, 0, 0, math.nan], [1, 2], "dgc")
        self.assertRegex(error, r"rest\.f32: value 3 is -?nan")

    def test_sum_that_overflows_is_named(self):
        error = self.encode_with([0, 3e38, 0], [1, 3e38, 3])
        self.assertRegex(error, r"value 1 of \S*in\.f32 and value 1 of \S+ \S*rest\.f32 add up")

    def test_velocity_that_overflows_is_named(self):
        error = self.encode_with([0, 0, 0, 3.4e38], [1, 3.4e38], "dgc")
        self.assertRegex(error, r"value 1 of \S*in\.f32 and value 3 of \S+ \S*rest\.f32 add up")

    def test_bad_input_is_named_before_the_sum(self):
        error = self.encode_with([0, 3e38], [math.nan, 3e38])
        self.assertIn("value 0 is nan", error)


if __name__ == "__main__":
    main()
