"""The verbs of ./tern: help, mistakes, what setup installs, and one ctest for several builds."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
VERBS = ["demo", "experiment", "test", "build", "bench", "fuzz", "lint", "format", "fresh", "cross",
         "docs", "rtl", "setup", "clean"]


def tern(*arguments, cwd="/", **environment):
    clean = {k: v for k, v in os.environ.items() if k not in ("TERN_SKIP_BUILD",)}
    clean.update(environment)
    return subprocess.run([SOURCE / "tern", *arguments], cwd=cwd, env=clean, text=True,
                          capture_output=True)


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class Help(unittest.TestCase):
    def test_help_lists_every_verb_and_each_teaches_itself(self):
        overview = tern("help").stdout
        for verb in VERBS:
            self.assertIn("\n  " + verb + " ", overview)
            told = tern(verb, "--help")
            self.assertEqual(told.returncode, 0, verb)
            self.assertTrue(told.stdout.startswith("usage: ./tern " + verb), told.stdout)

    def test_no_verb_is_help(self):
        self.assertEqual(tern().stdout, tern("help").stdout)

    def test_mistakes_are_usage_errors_that_name_them(self):
        for wrong in (["nonsense"], ["test", "--nonsense"], ["test", "--quick", "nonsense"], ["experiment"],
                      ["experiment", "/nowhere.ini"], ["experiment", "--json"], ["demo", "x"], ["demo", "scale-out", "x"], ["demo", "scale-out", "--clients", "0"],
                      ["bench", "nonsense"], ["bench", "--beside"], ["bench", "--beside", "/nowhere", "rounds"],
                      ["bench", "--beside", "/nowhere", "codec"], ["fresh", "--nonsense"], ["setup", "nonsense"],
                      ["cross"], ["cross", "mips"], ["cross", "arm64", "--nonsense"], ["docs", "--nonsense"], ["docs", "--output"],
                      ["rtl", "--nonsense"], ["rtl", "--values"], ["rtl", "--values", "x"]):
            done = tern(*wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertTrue(done.stderr.startswith("tern: "), wrong)


    def test_a_mistyped_verb_is_guessed(self):
        for wrong, meant in (("tset", "test"), ("experimant", "experiment"), ("Build", "build")):
            self.assertIn(f"there is no verb '{wrong}'; did you mean '{meant}'? ./tern help lists them", tern(wrong).stderr)
        self.assertNotIn("did you mean", tern("frobnicate").stderr)


class Bench(unittest.TestCase):
    def test_rounds_are_timed_in_turns_with_another_build(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "figures.json"
            done = tern("bench", "--json", str(out), "--beside", os.environ["TERN_BUILD_DIR"], "rounds",
                        TERN_SKIP_BUILD="1", BENCH_TURNS="2", BENCH_COHORT="2", BENCH_ROUNDS="1",
                        BENCH_MODEL="softmax:20-4", BENCH_STEPS="2")
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads(out.read_text())
        self.assertEqual(figures["rounds_accepted"], 2)
        self.assertNotIn("beside_rounds_accepted", figures)
        for name in ("rounds_cpu_ms", "beside_rounds_cpu_ms", "rounds_cpu_ms_over_beside"):
            self.assertGreater(figures[name], 0)

    def test_figures_are_medians_of_turns(self):
        with tempfile.TemporaryDirectory() as folder:
            for build, numbers in {"this": [1, 2, 6], "beside": [4, 4, 4]}.items():
                for turn, number in enumerate(numbers, 1):
                    (pathlib.Path(folder) / f"x-{build}-{turn}.json").write_text(
                        json.dumps({"cpu": number, "clients": 7}))
            command = [sys.executable, "-B", SOURCE / "lab/bench/in_turns.py", f"{folder}/x", "3"]
            names = ["ms=cpu", "n=clients"]
            both = subprocess.run([*command, "1", *names], capture_output=True, check=True).stdout
            alone = subprocess.run([*command, "", *names], capture_output=True, check=True).stdout
        self.assertEqual(json.loads(both), {"ms": 2, "beside_ms": 4, "ms_over_beside": 0.5, "n": 7})
        self.assertEqual(json.loads(alone), {"ms": 2, "n": 7})


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.bin = pathlib.Path(self.folder.name)
        self.calls = self.bin / "calls"
        self.calls.touch()
        script(self.bin / "apt-get", f'echo "$@" >> {self.calls}\n')
        script(self.bin / "apt-cache", 'echo "  Candidate: 1.0"\n')
        script(self.bin / "sudo", 'exec "$@"\n')

    def setup(self, *groups):
        path = f"{self.bin}:{os.environ['PATH']}"
        return tern("setup", *groups, PATH=path)

    def test_nothing_happens_when_all_packages_are_there(self):
        script(self.bin / "dpkg-query", 'echo "install ok installed"\n')
        done = self.setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.calls.read_text(), "")

    def test_only_what_is_missing_is_installed_and_said(self):
        script(self.bin / "dpkg-query",
               'case "$4" in cmake|zlib1g-dev) exit 1;; esac; echo "install ok installed"\n')
        done = self.setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("installing 2 Debian packages", done.stdout)
        self.assertIn("build system", done.stdout)
        update, install = self.calls.read_text().splitlines()
        self.assertEqual(update, "-q update")
        self.assertEqual(install, "-q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends cmake zlib1g-dev")

    def test_what_is_missing_on_a_fresh_machine_is_no_mistake(self):
        script(self.bin / "dpkg-query", 'echo "no packages found" >&2; exit 1\n')
        done = self.setup()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_root_and_sudo_the_verb_for_root_is_named(self):
        script(self.bin / "dpkg-query", "exit 1\n")
        script(self.bin / "id", "echo 1000\n")
        (self.bin / "sudo").unlink()
        for tool in ("env", "bash", "sh", "dirname", "readlink", "realpath", "awk", "head", "cat"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        done = tern("test", PATH=str(self.bin))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "tern: installing packages needs root, and there is no sudo: "
                                      "as root run ./tern setup build test, then this again\n")
        self.assertEqual(self.calls.read_text(), "")

    def test_a_removed_package_counts_as_missing(self):
        script(self.bin / "dpkg-query", 'echo "deinstall ok config-files"\n')
        self.setup("fresh")
        self.assertIn("debootstrap", self.calls.read_text())

    def test_a_failing_apt_is_told(self):
        script(self.bin / "dpkg-query", "exit 1\n")
        script(self.bin / "apt-get", "exit 100\n")
        done = self.setup()
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get update failed", done.stderr)

    def test_another_program_that_uses_apt_is_waited_for(self):
        script(self.bin / "dpkg-query", "exit 1\n")
        script(self.bin / "apt-get", f'echo "$@" >> {self.calls}\n'
               f'[ "$(wc -l < {self.calls})" -gt 1 ] || {{ echo "E: Could not get lock /x. It is held by process 7" >&2; exit 100; }}\n')
        done = self.setup("fresh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("waiting for another program that uses apt", done.stdout)
        calls = self.calls.read_text().splitlines()
        self.assertEqual(calls[:2], ["-q update"] * 2)
        self.assertIn("install", calls[2])


class Merge(unittest.TestCase):
    def test_tests_of_several_builds_run_under_one_ctest(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for build in ("one", "two", "all"):
                (folder / build).mkdir()
            (folder / "one" / "CTestTestfile.cmake").write_text(
                'add_test(good "/bin/true")\nadd_test(check "/bin/true")\n'
                'set_tests_properties(check PROPERTIES LABELS "lint")\n')
            (folder / "two" / "CTestTestfile.cmake").write_text(
                'add_test(good "/bin/sh" "-c" "test \\"$WHAT\\" = \'a;b\'")\n'
                'set_tests_properties(good PROPERTIES ENVIRONMENT "WHAT=a\\\\;b")\n'
                'add_test(check "/bin/false")\n'
                'set_tests_properties(check PROPERTIES LABELS "lint")\n'
                'add_test(skipped "/bin/sh" "-c" "exit 77")\n'
                'set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)\n')
            subprocess.run([sys.executable, SOURCE / "cmake/verbs/merge_tests.py", folder / "all", "1", "1",
                            f"release:{folder}/one:", f"asan:{folder}/two:-LE lint"], check=True)
            done = subprocess.run(["ctest", "--test-dir", folder / "all"], capture_output=True,
                                  text=True)
            self.assertIn("100% tests passed, 0 tests failed out of 4", done.stdout)
            self.assertIn("asan.skipped", done.stdout)
            self.assertIn("***Skipped", done.stdout)

    def test_what_waits_has_places_of_its_own(self):
        """Beside each other: one that computes and one that waits, but not two that wait."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for build in ("one", "all"):
                (folder / build).mkdir()
            # Each leaves a file while it runs, and ends once it has seen the other's, or in vain.
            meets = ('touch {0}/$1; for i in 1 2 3 4 5 6 7 8 9 10; do [ -e {0}/$2 ] && sleep 0.3 && exit 0; sleep 0.1; done;'
                     ' rm {0}/$1; exit 1').format(folder)
            for labels, code in (("computes", 0), ("waits", 8)):
                (folder / "one" / "CTestTestfile.cmake").write_text(
                    f'add_test(a "/bin/sh" "-c" [=[{meets}]=] "sh" "a" "b")\n'
                    f'add_test(b "/bin/sh" "-c" [=[{meets}]=] "sh" "b" "a")\n'
                    f'set_tests_properties(a PROPERTIES LABELS "waits")\n'
                    f'set_tests_properties(b PROPERTIES LABELS "{labels}")\n')
                subprocess.run([sys.executable, SOURCE / "cmake/verbs/merge_tests.py", folder / "all", "1", "1",
                                f"release:{folder}/one:"], check=True)
                done = subprocess.run(["ctest", "-j2", "--test-dir", folder / "all", "--resource-spec-file",
                                       folder / "all" / "resources.json"], capture_output=True, text=True)
                self.assertEqual(done.returncode, code, done.stdout)
                for name in ("a", "b"):
                    (folder / name).unlink(missing_ok=True)

    def test_what_may_take_longest_begins_first(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for build in ("one", "all"):
                (folder / build).mkdir()
            (folder / "one" / "CTestTestfile.cmake").write_text(
                'add_test(short "/bin/true")\nadd_test(long "/bin/true")\n'
                'set_tests_properties(short PROPERTIES TIMEOUT "7")\n')
            subprocess.run([sys.executable, SOURCE / "cmake/verbs/merge_tests.py", folder / "all", "1", "1",
                            f"release:{folder}/one:"], check=True)
            done = subprocess.run(["ctest", "-j2", "--test-dir", folder / "all"],
                                  capture_output=True, text=True)
            begun = [line.split()[-1] for line in done.stdout.splitlines() if "Start " in line]
            self.assertEqual(begun, ["long", "short"])

    def test_sanitizers_have_three_times_as_long(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for build in ("one", "two", "all"):
                (folder / build).mkdir()
                (folder / build / "CTestTestfile.cmake").write_text(
                    'add_test(limited "/bin/true")\nadd_test(free "/bin/true")\n'
                    'set_tests_properties(limited PROPERTIES TIMEOUT "7")\n')
            subprocess.run([sys.executable, SOURCE / "cmake/verbs/merge_tests.py", folder / "all", "1", "1",
                            f"release:{folder}/one:", f"asan:{folder}/two:"], check=True)
            listing = subprocess.run(
                ["ctest", "--test-dir", folder / "all", "--show-only=json-v1"],
                capture_output=True, text=True, check=True).stdout
            limits = {test["name"]: entry["value"] for test in json.loads(listing)["tests"]
                      for entry in test["properties"] if entry["name"] == "TIMEOUT"}
            self.assertEqual(limits, {"limited": 7, "free": 600, "asan.limited": 21,
                                      "asan.free": 1800})

    def run_tests(self, folder, commands):
        """What ./tern test --again makes of tests of these shell commands, one a name."""
        (folder / "one").mkdir()
        (folder / "one" / "CTestTestfile.cmake").write_text("".join(
            f'add_test({name} "/bin/sh" "-c" [=[{command}]=])\n' for name, command in commands.items()))
        verbs = SOURCE / "cmake" / "verbs"
        return subprocess.run(
            ["bash", "-ec", f'. {verbs}/common.sh; . {verbs}/test.sh; run_tests yes yes "release:{folder}/one:" --'],
            env={**os.environ, "TERN_ROOT": str(SOURCE), "TERN_BUILD": str(folder)}, capture_output=True, text=True)

    def test_what_fails_once_is_named_and_what_fails_twice_fails(self):
        once = "test -e {0}/seen || {{ touch {0}/seen; exit 1; }}"
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_tests(pathlib.Path(folder), {"steady": "true", "shaky": once.format(folder)})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("tern: UNSTEADY: shaky failed", done.stderr)
            self.assertNotIn("UNSTEADY: steady", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_tests(pathlib.Path(folder), {"broken": "false", "shaky": once.format(folder)})
            self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == "__main__":
    unittest.main()
