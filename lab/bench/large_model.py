"""What a large model costs the aggregator: large_model.py DATABASE PID PROGRAM ARGUMENT...

Runs PROGRAM (tern-fleet against the aggregator of process PID) to its end and prints one line of JSON: the
aggregator's processor time, its peak of resident memory (all, and without pages of files, which the kernel
takes back when it needs them), bytes that it wrote to disk, and the largest size of its database while it ran.
"""
import json
import os
import subprocess
import sys
import time

EVERY_S = 0.02


def status(pid, *keys):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        found = dict(line.split(":", 1) for line in lines)
    return [int(found[key].split()[0]) / 1024 for key in keys]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def written_bytes(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as lines:
        return int(dict(line.split(": ") for line in lines)["write_bytes"])


def size(*files):
    return sum(os.path.getsize(file) for file in files if os.path.exists(file))


def main():
    database, pid, *command = sys.argv[1:]
    before, written, started = cpu_seconds(pid), written_bytes(pid), time.monotonic()
    anonymous = largest = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as program:
        while program.poll() is None:
            anonymous = max(anonymous, *status(pid, "RssAnon"))
            largest = max(largest, size(database, database + "-wal"))
            time.sleep(EVERY_S)
    print(json.dumps({
        "seconds": round(time.monotonic() - started, 2),
        "server_cpu_seconds": round(cpu_seconds(pid) - before, 2),
        "peak_mib": round(status(pid, "VmHWM")[0]),
        "peak_anonymous_mib": round(anonymous),
        "written_mb": round((written_bytes(pid) - written) / 1e6),
        "database_mb": round(size(database) / 1e6),
        "database_and_log_most_mb": round(largest / 1e6),
    }))
    return program.returncode


if __name__ == "__main__":
    sys.exit(main())
