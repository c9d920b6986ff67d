"""CPU time of what an operator asks of a federation: report_times.py AGGREGATOR STATE.

Prints one line of JSON: milliseconds of user and system time of the whole program, the least of five runs.
"""
import json
import resource
import subprocess
import sys

RUNS = 5


def cpu_ms(command):
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(1000 * min(times), 1)


def main():
    aggregator, state = sys.argv[1:]
    verbs = {"status_cpu_ms": ["status"], "report_bytes_cpu_ms": ["report", "bytes"],
             "report_clients_cpu_ms": ["report", "bytes", "--by", "client"], "report_fairness_cpu_ms": ["report", "fairness"]}
    print(json.dumps({key: cpu_ms([aggregator, *verb, "--state", state]) for key, verb in verbs.items()}))


main()
