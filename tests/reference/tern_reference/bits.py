"""Bit strings: the first bit is the lowest of the first byte, fields go lowest bit first."""

from .values import Refused


class Writer:
    def __init__(self):
        self.done = bytearray()
        self.held = 0
        self.width = 0  # bits held

    def put(self, value, width):
        self.held |= value << self.width
        self.width += width
        whole = self.width // 8
        self.done += (self.held & ((1 << 8 * whole) - 1)).to_bytes(whole, "little")
        self.held >>= 8 * whole
        self.width %= 8

    def bytes(self):
        return bytes(self.done) + bytes([self.held]) * (self.width > 0)


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0  # bits read

    def get(self, width):
        end = self.at + width
        if end > 8 * len(self.data):
            raise Refused("corrupt")
        word = int.from_bytes(self.data[self.at // 8 : -(-end // 8)], "little")
        value = word >> self.at % 8 & ((1 << width) - 1)
        self.at = end
        return value

    def finish(self):
        """Every byte was begun, and what is left of the last one is 0."""
        if -(-self.at // 8) != len(self.data) or self.get(-self.at % 8) != 0:
            raise Refused("corrupt")
