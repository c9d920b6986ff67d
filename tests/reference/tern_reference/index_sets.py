"""FORMAT.md section 3.5: sets of indices below n."""

from .bits import Reader, Writer
from .values import Refused, get_varint, put_varint

MOST_PARAMETER = 31


def parameter(n, c):
    def most_bits(r):
        return c * (r + 1) + ((n - c) >> r)

    r = 0
    while r < MOST_PARAMETER and most_bits(r + 1) < most_bits(r):
        r += 1
    return r


def put(indices, n):
    r, out, before = parameter(n, len(indices)), Writer(), -1
    for index in indices:
        gap = index - before - 1
        out.put(0, gap >> r)
        out.put(1, 1)
        out.put(gap & ((1 << r) - 1), r)
        before = index
    return put_varint(len(indices)) + bytes([r]) + out.bytes()


def get(body, n, value_bytes):
    """The indices, and the `value_bytes` bytes for each of them that end the body."""
    count, at = get_varint(body, 0)
    if not 1 <= count <= n or at >= len(body) or body[at] > MOST_PARAMETER:
        raise Refused("corrupt")
    r, end = body[at], len(body) - value_bytes * count
    if end < at + 1:
        raise Refused("corrupt")
    source, index, indices = Reader(body[at + 1 : end]), -1, []
    for _ in range(count):
        quotient = 0
        while source.get(1) == 0:
            quotient += 1
        index += 1 + (quotient << r | source.get(r))
        if index >= n:
            raise Refused("corrupt")
        indices.append(index)
    source.finish()
    return indices, body[end:]
