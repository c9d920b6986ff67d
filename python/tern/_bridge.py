"""Trainer of simulate()'s clients: forwards each task to the simulating process and its answer back.

Usage: _bridge.py SOCKET CLIENT, as a persistent trainer (docs/TRAINERS.md). It imports little, as each client runs a
copy.
"""
import os
import socket
import sys


def main() -> None:
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(sys.argv[1])
        answers = link.makefile("rb")
        for line in sys.stdin.buffer:
            link.sendall(sys.argv[2].encode() + b" " + line)
            answer = answers.readline()
            if not answer:
                sys.exit("the process that simulates has ended")
            os.write(3, answer)


main()
