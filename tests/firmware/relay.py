"""One connection of a device: QEMU starts this for each, with its bytes on standard input and output.

QEMU's own forwarding to a port keeps a single connection for as long as QEMU runs.
"""
import os
import selectors
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    watched = selectors.DefaultSelector()
    watched.register(0, selectors.EVENT_READ)
    watched.register(peer, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            data = os.read(key.fd, 65536)
            if not data:
                sys.exit(0)
            if key.fd == 0:
                peer.sendall(data)
            else:
                os.write(0, data)
