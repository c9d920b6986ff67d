"""The verbs of ./tern: help, mistakes, what setup installs, and one ctest for several builds."""
import json
import os
import pathlib
import pty
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TERN_SOURCE_DIR"])
VERBS = ["demo", "experiment", "test", "build", "bench", "fuzz", "lint", "format", "fresh", "cross",
         "docs", "rtl", "setup", "clean", "image", "java"]


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
                      ["experiment", "/nowhere.ini"], ["experiment", "--json"], ["demo", "x"], ["demo", "failover", "x"], ["demo", "failover", "--clients", "0"], ["demo", "private", "--keep"],
                      ["bench", "nonsense"], ["bench", "--participation", "0"], ["bench", "--beside"], ["bench", "--beside", "/nowhere", "rounds"],
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


class FirmwareSizes(unittest.TestCase):
    def test_objects_of_another_clone_count_for_the_same_part(self):
        sys.path.insert(0, str(SOURCE / "cmake/verbs"))
        import firmware_sizes
        for path in (SOURCE / "shared/util/text.c", "/other/clone/shared/util/text.c", "../../shared/util/text.c"):
            self.assertEqual(firmware_sizes.within_root(str(path)), "shared/util/text.c")
        self.assertEqual(firmware_sizes.within_root("/gcc/libgcc/ieee754-sf.S"), "/gcc/libgcc/ieee754-sf.S")


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

    def test_no_tests_are_built(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            script(folder / "cmake", 'echo "$@" >>"$CMAKE_LOG"\n')
            tern("bench", "codec", PATH=f"{folder}:{os.environ['PATH']}", CMAKE_LOG=str(folder / "log"),
                 TERN_BUILD_DIR=str(folder / "build"))
            built = [line for line in (folder / "log").read_text().splitlines() if line.startswith("--build")]
        self.assertEqual([line.partition(" --target ")[2] for line in built], ["tern-programs tern-benches"])

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


def packages(folder, missing="", status="install ok installed"):
    """A dpkg-query that reports this status of each package but of the missing ones: a pattern of the shell, * for all."""
    script(folder / "dpkg-query", f"""shift 3
for name; do
    case $name in {missing or '""'}) echo "no packages found" >&2; code=1 ;; *) echo "$name $name:amd64 {status}" ;; esac
done
exit "${{code:-0}}"
""")


class Build(unittest.TestCase):
    def configured(self, ccache):
        """What ./tern build gives to CMake, with such a ccache."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            packages(folder)
            script(folder / "cmake", f'echo "launcher=$CMAKE_C_COMPILER_LAUNCHER $@" >> {folder}/calls\n')
            script(folder / "ccache", ccache)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TERN_BUILD_DIR": str(folder / "build")}
            for name in ("TERN_SKIP_BUILD", "CMAKE_C_COMPILER_LAUNCHER"):
                environment.pop(name, None)
            done = subprocess.run([SOURCE / "tern", "build"], env=environment, text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return (folder / "calls").read_text().splitlines()

    def test_it_builds_the_programs_and_no_tests(self):
        configure, build = self.configured("exit 1\n")
        self.assertIn("launcher= --preset release", configure)
        self.assertTrue(build.endswith("--target tern-programs"), build)

    def test_ccache_is_used_where_it_works(self):
        self.assertIn("launcher=ccache --preset release", self.configured("echo /somewhere\n")[0])


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
        return tern("setup", *groups, PATH=path, TERN_BUILD_DIR=str(self.bin / "build"))

    def test_nothing_happens_when_all_packages_are_there(self):
        packages(self.bin)
        done = self.setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(self.calls.read_text(), "")

    def test_only_what_is_missing_is_installed_and_said(self):
        packages(self.bin, missing="cmake|zlib1g-dev")
        done = self.setup()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("installing 2 Debian packages", done.stdout)
        self.assertIn("build system", done.stdout)
        update, install = self.calls.read_text().splitlines()
        self.assertEqual(update, "-q update")
        self.assertTrue(install.endswith(" install -y --no-install-recommends cmake zlib1g-dev"), install)
        self.assertIn("-o DPkg::Lock::Timeout=600 ", install)

    def test_no_question_stops_it(self):
        """Settings files that were changed stay as they are, debconf does not ask, and there is no input to read."""
        packages(self.bin, missing="*")
        script(self.bin / "apt-get", f'echo "$DEBIAN_FRONTEND $@" >> {self.calls}\n'
               'read -r answer && exit 1\nexit 0\n')
        path = f"{self.bin}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "TERN_BUILD_DIR": str(self.bin / "build")}
        environment.pop("TERN_SKIP_BUILD", None)
        done = subprocess.run([SOURCE / "tern", "setup", "fresh"], env=environment, input="y\n", text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for call in self.calls.read_text().splitlines():
            self.assertTrue(call.startswith("noninteractive "), call)
        self.assertIn("-o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold ", call)

    # What apt prints with APT::Status-Fd=1, shortened.
    PRINTED = ("Reading package lists...\ndlstatus:1:0:Retrieving file 1 of 2\nGet:1 http://x cmake 1\n"
               "dlstatus:2:50.5:Retrieving file 2 of 2\npmstatus:dpkg-exec:0:Running dpkg\nSetting up cmake (1) ...\n"
               "pmstatus:cmake:60.0000:Installed cmake (amd64)\npmstatus:cmake:100.0000:Done\n")

    def test_progress_is_plain_lines_and_the_log_a_file(self):
        packages(self.bin, missing="*")
        script(self.bin / "apt-get", f'case "$*" in *install*) printf %s "{self.PRINTED}" ;; *) echo Hit:1 ;; esac\n')
        done = self.setup("fresh")
        self.assertEqual(done.returncode, 0, done.stderr)
        log = self.bin / "build/apt.log"
        self.assertEqual(done.stdout.splitlines(),
                         [f"== installing 1 Debian packages that are missing (apt-get; log: {log})",
                          "   debootstrap            makes the minimal Debian root",
                          "    25 %  downloading", "    50 %  installing packages", "    80 %  installing cmake",
                          "   100 %  installing cmake"])
        self.assertEqual(log.read_text(), "Hit:1\n" + self.PRINTED)

    def test_on_a_terminal_progress_is_one_line(self):
        packages(self.bin, missing="*")
        script(self.bin / "apt-get", f'case "$*" in *install*) printf %s "{self.PRINTED}" ;; *) echo Hit:1 ;; esac\n')
        path = f"{self.bin}:{os.environ['PATH']}"
        outer, inner = pty.openpty()
        environment = {**os.environ, "PATH": path, "TERN_BUILD_DIR": str(self.bin / "build")}
        environment.pop("TERN_SKIP_BUILD", None)
        done = subprocess.run([SOURCE / "tern", "setup", "fresh"], env=environment, stdout=inner, stderr=inner)
        os.close(inner)
        said = b""
        try:
            while chunk := os.read(outer, 4096):
                said += chunk
        except OSError:  # Linux's end of a terminal that nobody holds
            pass
        os.close(outer)
        self.assertEqual(done.returncode, 0, said)
        first, bar, *rest = said.decode().split("\r\n")
        self.assertIn("installing 1 Debian packages", first)
        self.assertEqual(rest, [])
        self.assertIn("[########################      ]  80 %  installing cmake", bar)
        self.assertLess(max(map(len, bar.split("\r"))), 80) # a longer line would wrap, and stay
        self.assertTrue(bar.endswith("\r" + 79 * " " + "\r"), bar)

    def test_a_failure_names_the_packages_that_failed(self):
        """Apt names the package in each kind of failure; otherwise, missing packages are named afterwards."""
        for printed, failed in (
                ("E: Unable to locate package cmake", "cmake"),
                ("E: Package 'zlib1g-dev' has no installation candidate", "zlib1g-dev"),
                ("E: Failed to fetch http://deb.example/pool/main/z/zlib/zlib1g-dev_1.2.13_amd64.deb  404  Not Found",
                 "zlib1g-dev"),
                ("pmerror:cmake:40.0:subprocess returned error exit status 1\nErrors were encountered while processing:\n"
                 " cmake\nE: Sub-process /usr/bin/dpkg returned an error code (1)", "cmake"),
                ("dpkg: error processing archive /var/cache/apt/archives/cmake_3.25.1-1_amd64.deb (--unpack):\n"
                 "pmerror:/var/cache/apt/archives/cmake_3.25.1-1_amd64.deb:20.0:trying to overwrite '/usr/bin/cmake'\n"
                 "Errors were encountered while processing:\n /var/cache/apt/archives/cmake_3.25.1-1_amd64.deb\n"
                 "E: Sub-process /usr/bin/dpkg returned an error code (1)", "cmake"),
                ("The following packages have unmet dependencies:\n"
                 " gcc : Depends: cpp (= 4:12.2.0-3) but it is not going to be installed\n"
                 "E: Unable to correct problems, you have held broken packages.", "gcc"),
                ("E: Unable to locate package cmake\nE: Unable to locate package gcc", "cmake gcc"),
                ("Killed", "gcc cmake zlib1g-dev")):
            with self.subTest(printed):
                packages(self.bin, missing="cmake|zlib1g-dev|gcc")
                (self.bin / "printed").write_text(printed + "\n")
                script(self.bin / "apt-get", f'case "$*" in *install*) cat {self.bin}/printed; exit 100 ;; esac\n')
                done = self.setup()
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"tern: apt-get could not install: {failed}. The output is in ", done.stderr)

    def test_what_is_missing_on_a_fresh_machine_is_no_mistake(self):
        packages(self.bin, missing="*")
        done = self.setup()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_without_root_and_sudo_the_verb_for_root_is_named(self):
        packages(self.bin, missing="*")
        script(self.bin / "id", "echo 1000\n")
        (self.bin / "sudo").unlink()
        for tool in ("env", "bash", "sh", "dirname", "readlink", "realpath", "awk", "head", "cat", "mkdir"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        done = tern("test", PATH=str(self.bin))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "tern: installing packages needs root, and there is no sudo: "
                                      "as root run ./tern setup build test, then this again\n")
        self.assertEqual(self.calls.read_text(), "")

    def test_a_removed_package_counts_as_missing(self):
        packages(self.bin, status="deinstall ok config-files")
        self.setup("fresh")
        self.assertIn("debootstrap", self.calls.read_text())

    def test_a_failing_apt_is_told(self):
        packages(self.bin, missing="*")
        script(self.bin / "apt-get", "exit 100\n")
        done = self.setup()
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt-get update failed", done.stderr)

    def test_another_program_that_uses_apt_is_waited_for(self):
        packages(self.bin, missing="*")
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

    def test_what_took_longest_begins_first(self):
        """By the last run; before there is one, by the seconds that tests/seconds.txt records."""
        measured = dict(line.split() for line in (SOURCE / "tests/seconds.txt").read_text().splitlines()
                        if not line.startswith("#"))
        slowest = max((name for name in measured if "." not in name), key=lambda name: float(measured[name]))
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for build in ("one", "all"):
                (folder / build).mkdir()
            (folder / "one" / "CTestTestfile.cmake").write_text(
                'add_test(new "/bin/true")\nadd_test(nap "/bin/sh" "-c" "sleep 0.3")\n'
                f'add_test({slowest} "/bin/true")\nset_tests_properties(new PROPERTIES TIMEOUT "70")\n')
            orders = []
            for _ in range(2):
                subprocess.run([sys.executable, SOURCE / "cmake/verbs/merge_tests.py", folder / "all", "1", "1",
                                f"release:{folder}/one:"], check=True)
                done = subprocess.run(["ctest", "-j2", "--test-dir", folder / "all"], capture_output=True, text=True)
                orders.append([line.split()[-1] for line in done.stdout.splitlines() if "Start " in line])
        self.assertEqual((orders[0][0], orders[1][0]), (slowest, "nap"))

    def test_a_build_without_times_of_its_own_takes_the_release_builds(self):
        """A sanitizer makes each test slower, so its tests begin before those of the release build."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for build in ("one", "two", "all"):
                (folder / build).mkdir()
                (folder / build / "CTestTestfile.cmake").write_text('add_test(nap "/bin/true")\n')
            last = folder / "all/Testing/Temporary"
            last.mkdir(parents=True)
            (last / "CTestCostData.txt").write_text("nap 1 7.5\nnever_ran 0 900\n---\n")
            subprocess.run([sys.executable, SOURCE / "cmake/verbs/merge_tests.py", folder / "all", "1", "1",
                            f"release:{folder}/one:", f"asan:{folder}/two:"], check=True)
            self.assertEqual(self.properties(folder / "all", "COST"), {"nap": 7.5, "asan.nap": 22.5})

    def properties(self, folder, name):
        """A property of each test in the folder."""
        listing = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], capture_output=True, text=True,
                                 check=True).stdout
        return {test["name"]: entry["value"] for test in json.loads(listing)["tests"]
                for entry in test["properties"] if entry["name"] == name}

    def test_limits_are_twice_as_long_and_six_times_with_sanitizers(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for build in ("one", "two", "all"):
                (folder / build).mkdir()
                (folder / build / "CTestTestfile.cmake").write_text(
                    'add_test(limited "/bin/true")\nadd_test(free "/bin/true")\n'
                    'set_tests_properties(limited PROPERTIES TIMEOUT "7")\n')
            subprocess.run([sys.executable, SOURCE / "cmake/verbs/merge_tests.py", folder / "all", "1", "1",
                            f"release:{folder}/one:", f"asan:{folder}/two:"], check=True)
            limits = self.properties(folder / "all", "TIMEOUT")
            self.assertEqual(limits, {"limited": 14, "free": 1200, "asan.limited": 42,
                                      "asan.free": 3600})

    def run_tests(self, folder, commands):
        """What ./tern test makes of tests of these shell commands, one a name, of which those named shaky are in quarantine."""
        quarantine = folder / "quarantine.txt"
        quarantine.write_text("# Why.\n" + "".join(f"{name} The reason.\n" for name in commands if name.startswith("shaky")))
        (folder / "one").mkdir()
        (folder / "one" / "CTestTestfile.cmake").write_text("".join(
            f'add_test({name} "/bin/sh" "-c" [=[{command}]=])\n' for name, command in commands.items()))
        verbs = SOURCE / "cmake" / "verbs"
        return subprocess.run(
            ["bash", "-ec", f'. {verbs}/common.sh; . {verbs}/test.sh; QUARANTINE={quarantine}; run_tests yes "release:{folder}/one:" --'],
            env={**os.environ, "TERN_ROOT": str(SOURCE), "TERN_BUILD": str(folder)}, capture_output=True, text=True)

    def test_only_what_is_in_quarantine_may_fail_once(self):
        once = "test -e {0}/seen || {{ touch {0}/seen; exit 1; }}"
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_tests(pathlib.Path(folder), {"steady": "true", "shaky": once.format(folder)})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("tern: UNSTEADY: shaky failed", done.stderr)
            self.assertNotIn("UNSTEADY: steady", done.stderr)
        for commands in ({"shaky_and_broken": "false"}, {"other": once}, {"broken": "false", "shaky": once},
                         {f"shaky{i}": "true" for i in range(6)}):
            with self.subTest(commands=commands), tempfile.TemporaryDirectory() as folder:
                done = self.run_tests(pathlib.Path(folder),
                                      {name: command.format(folder) for name, command in commands.items()})
                self.assertEqual(done.returncode, 1, done.stdout)


if __name__ == "__main__":
    unittest.main()
