"""A bad link between two network namespaces, packet by packet: a rate and a queue each way, a delay,
loss at random, and cuts, after which the link knows none of the connections that it carried and answers
their packets with resets, as an address translator that was restarted does. The kernel's netem would do
all but the last, but is not everywhere. Both ends are TUN devices of this process.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
RST, ACK = 0x04, 0x10
TCP = 6
libc = ctypes.CDLL(None, use_errno=True)


def enter(namespace):
    """Puts this thread into a network namespace, given by a file descriptor."""
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def open_tun(name, namespace):
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    enter(namespace)
    try:
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    finally:
        enter(home)
        os.close(home)
    return device


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Segment:
    """The fields of a TCP packet over IPv4 that a reset needs."""

    def __init__(self, packet):
        self.source, self.target = packet[12:16], packet[16:20]
        at = (packet[0] & 15) * 4
        self.ports = packet[at:at + 4]
        self.seq, self.ack = struct.unpack_from("!II", packet, at + 4)
        self.flags = packet[at + 13]
        self.flow = frozenset(((self.source, self.ports[:2]), (self.target, self.ports[2:])))

    def reset(self):
        """Returns a packet that resets the connection of the sender."""
        ports = self.ports[2:] + self.ports[:2]
        tcp = ports + struct.pack("!IIBBHHH", self.ack, 0, 5 << 4, RST, 0, 0, 0)
        pseudo = self.target + self.source + struct.pack("!BBH", 0, TCP, len(tcp))
        tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, TCP, 0) + self.target + self.source
        return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


class Link:
    """up: from `near`, the client's end, to `far`. Rates in bit/s, times in seconds; a queue holds `queue` seconds of
    its rate. cut_every: 0: never."""

    def __init__(self, near, far, rates, delay, loss, cut_every, queue=1.0, seed=1):
        self.ends = {near: (far, 0), far: (near, 1)}
        self.rates, self.delay, self.loss, self.queue = rates, delay, loss, queue
        self.cut_every = cut_every
        self.random = random.Random(seed)
        self.free = [0.0, 0.0]  # when the last packet of a direction will have left
        self.under_way = []
        self.number = 0
        self.offered = [0, 0]  # bytes of packets that came, by direction
        self.lost = [0, 0]
        self.cuts = 0
        self.alive = {}  # flow: {source: (device it came from, its last segment)}
        self.dead = set()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.ended.set()
        self.thread.join()

    def send(self, device, packet):
        try:
            os.write(device, packet)
        except OSError:
            pass  # the device's queue is full, or it is going down: one more loss

    def cut(self):
        self.cuts += 1
        self.under_way.clear()
        for flow, ends in self.alive.items():
            self.dead.add(flow)
            for device, segment in ends.values():
                self.send(device, segment.reset())
        self.alive.clear()

    def is_dead(self, device, packet):
        if packet[9] != TCP:
            return False
        segment = Segment(packet)
        if segment.flow in self.dead:
            if not segment.flags & RST:
                self.send(device, segment.reset())
            return True
        if segment.flags & ACK:
            self.alive.setdefault(segment.flow, {})[segment.source] = (device, segment)
        return False

    def carry(self, device, now):
        try:
            packet = os.read(device, 65536)
        except BlockingIOError:
            return
        if packet[0] >> 4 != 4:
            return
        sink, way = self.ends[device]
        self.offered[way] += len(packet)
        if self.is_dead(device, packet):
            return
        begins = max(now, self.free[way])
        if begins - now > self.queue:
            self.lost[way] += len(packet)
            return
        self.free[way] = begins + len(packet) * 8 / self.rates[way]
        if self.random.random() < self.loss:
            self.lost[way] += len(packet)
            return
        self.number += 1
        heapq.heappush(self.under_way, (self.free[way] + self.delay, self.number, sink, packet))

    def deliver(self, now):
        while self.under_way and self.under_way[0][0] <= now:
            _, _, sink, packet = heapq.heappop(self.under_way)
            self.send(sink, packet)

    def run(self):
        next_cut = time.monotonic() + self.cut_every if self.cut_every else float("inf")
        while not self.ended.is_set():
            now = time.monotonic()
            if now >= next_cut:
                next_cut += self.cut_every
                self.cut()
            self.deliver(now)
            wait = min(0.2, next_cut - now, *(at - now for at, *_ in self.under_way[:1]))
            for device in select.select(list(self.ends), [], [], max(wait, 0))[0]:
                self.carry(device, time.monotonic())
