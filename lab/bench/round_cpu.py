#!/usr/bin/env python3
"""Measures what a client's round costs the aggregator, in a real federation: tern-fleet's clients train, miss rounds and
catch up. Prints the aggregator's processor time of a client-round, its peak memory, and the bytes of the clients.

  lab/bench/round_cpu.py CONFIG.ini --data-dir DIR [--set section.key=value]...

takes the options of `./tern experiment`. Processor time does not depend on what else the machine does, but for its
caches."""
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TERN = pathlib.Path(__file__).resolve().parents[2] / "tern"
LOOK_EVERY = 0.3  # seconds


def find_aggregator(folder):
    """The process of the aggregator whose state is in the folder, as its folder of /proc, or None."""
    for process in glob.glob("/proc/[0-9]*"):
        try:
            words = pathlib.Path(process, "cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[0].endswith("tern-aggregator") and "serve" in words and any(folder in word for word in words):
            return process
    return None


def look(process):
    """Processor seconds of the process so far, its ended threads included, and its peak memory in MiB."""
    fields = pathlib.Path(process, "stat").read_text().rsplit(")", 1)[1].split()
    status = pathlib.Path(process, "status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak / 1024


def watch(run, folder):
    """The last of look() before the run ended."""
    process, seen = None, (0.0, 0.0)
    while run.poll() is None:
        time.sleep(LOOK_EVERY)
        process = process or find_aggregator(folder)
        try:
            seen = look(process) if process else seen
        except (OSError, StopIteration):
            pass  # it has just ended
    return seen


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="tern-round-cpu-") as folder:
        results = os.path.join(folder, "results.json")
        run = subprocess.Popen([TERN, "experiment", *sys.argv[1:], "--keep", os.path.join(folder, "run"),
                                "--json", results], stdout=sys.stderr)
        seconds, peak = watch(run, folder)
        if run.returncode != 0:
            sys.exit("round_cpu.py: the experiment failed")
        with open(results, encoding="utf-8") as file:
            result = json.load(file)
    rounds = len(result["record_wire_up"])
    print(json.dumps({"client_rounds": rounds, "aggregator_ms": round(seconds / rounds * 1e3, 3),
                      "peak_mib": round(peak), "wire_up": round(result["wire_up"]),
                      "wire_down": round(result["wire_down"])}))


if __name__ == "__main__":
    main()
