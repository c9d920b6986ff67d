#!/usr/bin/python3
"""One connection of a device: QEMU starts this for each, with its bytes on standard input and output.

QEMU's own forwarding to a port keeps a single connection for as long as QEMU runs. Says nothing on
standard error, which QEMU would send to the device too.
"""
import os
import selectors
import socket
import sys


def relay(peer):
    watched = selectors.DefaultSelector()
    watched.register(0, selectors.EVENT_READ)
    watched.register(peer, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            data = os.read(key.fd, 65536)
            if not data:
                return
            if key.fd == 0:
                peer.sendall(data)
            else:
                os.write(0, data)


try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        relay(connection)
except OSError:
    sys.exit(1)  # to the device the connection just ends
