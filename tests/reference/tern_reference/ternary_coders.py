"""FORMAT.md: symbols q = -1, 0, 1 to bytes and back."""

from .gaps import Gaps
from .range_coder import Range
from .values import Refused

POWERS = (81, 27, 9, 3, 1)
FIVE_ZEROS = 121


# --- Base 3^5 ---


def pack_planar(q):
    length = -(-len(q) // 5)
    digits = [d + 1 for d in q] + [1] * (5 * length - len(q))
    return bytes(sum(digits[k * length + j] * POWERS[k] for k in range(5)) for j in range(length))


def unpack_planar(packed, n):
    if any(byte > 242 for byte in packed):
        raise Refused("corrupt")
    return without_padding([byte // power % 3 - 1 for power in POWERS for byte in packed], n)


def without_padding(q, n):
    if any(q[n:]):
        raise Refused("corrupt")
    return q[:n]


# --- Runs of the byte 121 ---


def cut_runs(packed):
    """The bytes, with each longest run of 121 as (its length,)."""
    at = 0
    while at < len(packed):
        run = 0
        while at + run < len(packed) and packed[at + run] == FIVE_ZEROS:
            run += 1
        yield (run,) if run else packed[at]
        at += run or 1


def code_zero_runs(packed):
    out = bytearray()
    for item in cut_runs(packed):
        if not isinstance(item, tuple):
            out.append(item)
            continue
        out += bytes([255]) * (item[0] // 14)
        rest = item[0] % 14
        if rest:
            out.append(FIVE_ZEROS if rest == 1 else 241 + rest)
    return bytes(out)


def expand_zero_runs(coded, length):
    packed = bytearray()
    for byte in coded:
        packed += bytes([byte]) if byte < 243 else bytes([FIVE_ZEROS]) * (byte - 241)
        if len(packed) > length:
            raise Refused("corrupt")
    if len(packed) != length:
        raise Refused("corrupt")
    return bytes(packed)


# --- The coders ---


class Packed:
    mode = 0x11

    @staticmethod
    def encode(q):
        return pack_planar(q)

    @staticmethod
    def decode(body, n):
        if len(body) != -(-n // 5):
            raise Refused("corrupt")
        return unpack_planar(body, n)


class ZeroRun:
    mode = 0x10

    @staticmethod
    def encode(q):
        return code_zero_runs(pack_planar(q))

    @staticmethod
    def decode(body, n):
        return unpack_planar(expand_zero_runs(body, -(-n // 5)), n)


# In the order of their modes: of equally short payloads `auto` takes the lowest.
CODERS = {
    "zero-run": ZeroRun,
    "packed": Packed,
    "gaps": Gaps,
    "range": Range,
}


def encode(name, scale, q):
    """The payload of the named coder, or the shortest there is."""
    if name == "balanced":
        name = "zero-run" if 5 * sum(d != 0 for d in q) > 2 * len(q) else "range"
    coders = CODERS.values() if name == "auto" else [CODERS[name]]
    payloads = [bytes([coder.mode]) + scale + coder.encode(q) for coder in coders]
    return min(payloads, key=len)
