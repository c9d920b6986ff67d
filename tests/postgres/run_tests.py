"""Runs tests of a compiled program, whose databases are SQLite's files, with databases of PostgreSQL.

usage: run_tests.py PROGRAM TEST... [-- TEST...]
Those behind -- are left out unless the environment has TERN_LONG_TESTS.
"""
import concurrent.futures
import os
import subprocess
import sys
import time

import cluster


def run(program, name, environment):
    began = time.monotonic()
    done = subprocess.run([program, name], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    return name, done.returncode, done.stdout, time.monotonic() - began


def main(program, *words):
    usual, _, long = " ".join([*words, ""]).partition("-- ")
    names = usual.split() + (long.split() if os.environ.get("TERN_LONG_TESTS") else [])
    if cluster.folder_of_programs() is None:
        print("there is no PostgreSQL here")
        return 77
    failed = 0
    with cluster.Cluster() as postgres, concurrent.futures.ThreadPoolExecutor(2) as pool:
        environment = dict(os.environ, TERN_TEST_STORE=postgres.url())
        for name, code, output, took in pool.map(lambda name: run(program, name, environment), names):
            print(f"{name}: {'passed' if code == 0 else f'FAILED ({code})'}, {took:.1f} s", flush=True)
            if code != 0:
                failed += 1
                print(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
