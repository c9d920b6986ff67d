"""Ports of programs that listen some time after their port was chosen."""

import random
import socket


def port_to_keep():
    """Nobody else's, also while nobody listens at it: below those that outgoing connections take."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
