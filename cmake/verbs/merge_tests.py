"""Writes one CTestTestfile.cmake that holds the tests of several builds, so that one ctest runs and
counts them all, and resources.json, by which it runs so many at a time of those that wait more than they
compute (label "waits") and of the others. usage: merge_tests.py OUT_DIR WAITING COMPUTING
NAME:BUILD_DIR:CTEST_OPTIONS...
A test of the build named release keeps its name; another build's is NAME.test. Names of fixtures
and of other tests, which are per build, get the same prefix. Tests begin in the order of the seconds they took: in the last run in
OUT_DIR, or else in the run that tests/seconds.txt records."""
import json
import pathlib
import shlex
import subprocess
import sys

PER_BUILD = {"FIXTURES_SETUP", "FIXTURES_REQUIRED", "FIXTURES_CLEANUP", "DEPENDS"}

# A limit ends a test that hangs. Limits were chosen for tests that run alone in builds without sanitizers. Other tests run
# beside each one here, and sanitizers make code 2 to 10 times slower.
BESIDE_TIMES = 2
SANITIZED_TIMES = 3
DEFAULT_TIMEOUT = 600  # seconds, of tests that have no limit of their own

MEASURED = pathlib.Path(__file__).parents[2] / "tests/seconds.txt"
# Short tests take less. A new test has no recorded time: it begins before tests with less than
# this.
UNMEASURED_SECONDS = 2


def quoted(text):
    level = "="
    while "]" + level + "]" in text:
        level += "="
    return "[" + level + "[" + text + "]" + level + "]"


def value_text(value):
    if isinstance(value, list):
        return ";".join(str(item).replace(";", "\\;") for item in value)
    return str(value)


def seconds_of_tests(out_dir):
    """How long each test took, by its name."""
    seconds = {}
    for line in MEASURED.read_text().splitlines():
        if line and not line.startswith("#"):
            name, took = line.split()
            seconds[name] = float(took)
    last = pathlib.Path(out_dir, "Testing/Temporary/CTestCostData.txt")
    if last.exists():
        for line in last.read_text().partition("---")[0].splitlines():
            name, runs, took = line.split()
            if int(runs) > 0:
                seconds[name] = float(took)
    return seconds


def tests_of(build_dir, options):
    command = ["ctest", "--test-dir", build_dir, "--show-only=json-v1", *shlex.split(options)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(listing)["tests"]


def properties_of(test, times, seconds):
    properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
    properties["TIMEOUT"] = BESIDE_TIMES * times * properties.get("TIMEOUT", DEFAULT_TIMEOUT)
    # The longest test begins first, so that no long test runs alone at the end. Tests that mostly wait run in
    # separate slots: they neither keep a core idle nor begin last.
    properties["COST"] = seconds
    properties["RESOURCE_GROUPS"] = "waits:1" if "waits" in properties.get("LABELS", []) else "computes:1"
    return properties


def lines_of(test, prefix, seconds):
    times = SANITIZED_TIMES if prefix else 1
    took = seconds.get(prefix + test["name"], times * seconds.get(test["name"], UNMEASURED_SECONDS))
    name = quoted(prefix + test["name"])
    yield "add_test(%s %s)" % (name, " ".join(quoted(word) for word in test["command"]))
    for key, value in properties_of(test, times, took).items():
        if key in PER_BUILD:
            value = [prefix + item for item in value]
        yield "set_tests_properties(%s PROPERTIES %s %s)" % (name, key, quoted(value_text(value)))


def resources(**slots):
    return {"version": {"major": 1, "minor": 0},
            "local": [{name: [{"id": "0", "slots": int(count)}] for name, count in slots.items()}]}


def main(out_dir, waiting, computing, *variants):
    lines = []
    seconds = seconds_of_tests(out_dir)
    for variant in variants:
        name, build_dir, options = variant.split(":", 2)
        prefix = "" if name == "release" else name + "."
        for test in tests_of(build_dir, options):
            if "command" not in test:
                sys.exit("%s: test %s has no program; was it built?" % (name, test["name"]))
            lines += lines_of(test, prefix, seconds)
    pathlib.Path(out_dir, "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
    pathlib.Path(out_dir, "resources.json").write_text(json.dumps(resources(waits=waiting, computes=computing)))


main(*sys.argv[1:])
