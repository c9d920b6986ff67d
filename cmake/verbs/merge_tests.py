"""Writes one CTestTestfile.cmake that holds the tests of several builds, so that one ctest runs and
counts them all. usage: merge_tests.py OUT_DIR NAME:BUILD_DIR:FILTER_OPTION:FILTER...
A test of the build named release keeps its name; another build's is NAME.test. Names of fixtures
and of other tests, which are per build, get the same prefix."""
import json
import pathlib
import subprocess
import sys

PER_BUILD = {"FIXTURES_SETUP", "FIXTURES_REQUIRED", "FIXTURES_CLEANUP", "DEPENDS"}


def quoted(text):
    level = "="
    while "]" + level + "]" in text:
        level += "="
    return "[" + level + "[" + text + "]" + level + "]"


def value_text(value):
    if isinstance(value, list):
        return ";".join(str(item).replace(";", "\\;") for item in value)
    return str(value)


def tests_of(build_dir, option, pattern):
    command = ["ctest", "--test-dir", build_dir, "--show-only=json-v1"]
    if option:
        command += [option, pattern]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(listing)["tests"]


def lines_of(test, prefix):
    name = quoted(prefix + test["name"])
    yield "add_test(%s %s)" % (name, " ".join(quoted(word) for word in test["command"]))
    for entry in test.get("properties", []):
        value = entry["value"]
        if entry["name"] in PER_BUILD:
            value = [prefix + item for item in value]
        yield "set_tests_properties(%s PROPERTIES %s %s)" % (
            name, entry["name"], quoted(value_text(value)))


def main(out_dir, variants):
    lines = []
    for variant in variants:
        name, build_dir, option, pattern = variant.split(":", 3)
        prefix = "" if name == "release" else name + "."
        for test in tests_of(build_dir, option, pattern):
            if "command" not in test:
                sys.exit("%s: test %s has no program; was it built?" % (name, test["name"]))
            lines += lines_of(test, prefix)
    pathlib.Path(out_dir, "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")


main(sys.argv[1], sys.argv[2:])
