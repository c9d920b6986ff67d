"""Vectors of payloads by hand. Some are what no encoder writes."""

import tern_reference as ref
from tern_reference import ternary_coders, uniform
from vector_text import bits, line

ONE = ref.put_f32([1.0])
TINY = ref.put_f32([2.0**-149])


def payload(mode, *parts):
    """Returns a payload: the mode byte, then bytes, lists of bytes and floats."""
    body = b"".join(ref.put_f32([p]) if isinstance(p, float) else bytes(p) for p in parts)
    return bytes([mode]) + body


def modes():
    yield "empty", 3, b""
    yield "unknown-mode", 3, b"\x7f"
    yield "zero", 3, b"\x00"
    yield "zero-of-none", 0, b"\x00"
    yield "zero-with-body", 3, b"\x00\x00"


def dense():
    yield "float32-of-none", 0, b"\x01"
    yield "float32-short", 2, payload(1, ONE, ONE[:3])
    yield "float32-long", 2, payload(1, ONE, ONE, [0])
    yield "float32-infinite", 2, payload(1, 1.0, float("-inf"))
    yield "float32-nan", 1, payload(1, bytes.fromhex("010080ff"))
    yield "float16-negative-zero", 2, payload(2, bytes.fromhex("0080003c"))
    yield "float16-infinite", 1, payload(2, bytes.fromhex("007c"))
    yield "float16-nan", 1, payload(2, bytes.fromhex("01fe"))
    yield "float16-short", 2, payload(2, bytes.fromhex("003c00"))
    yield "bfloat16-negative-zero", 2, payload(3, bytes.fromhex("0080803f"))
    yield "bfloat16-infinite", 1, payload(3, bytes.fromhex("80ff"))
    yield "bfloat16-nan", 1, payload(3, bytes.fromhex("817f"))
    yield "bfloat16-short", 2, payload(3, bytes.fromhex("803f80"))
    yield "bfloat16-long", 1, payload(3, bytes.fromhex("803f8000"))
    yield "int8", 5, payload(4, 0.5, [1, 255, 127, 129, 0])
    yield "int8-subnormal", 2, payload(4, TINY, [1, 129])
    yield "int8-lowest", 2, payload(4, 0.5, [1, 128])
    yield "int8-short", 2, payload(4, 0.5, [1])
    yield "int8-long", 2, payload(4, 0.5, [1, 2, 3])
    yield "int8-overflow", 2, payload(4, 2.0**122, [1, 2])
    yield "int8-zeros", 2, payload(4, 0.5, [0, 0])
    yield from scales("int8", 4, lambda scale: (2, (scale, [1, 2])))
    yield "onebit", 9, payload(0x20, 0.5, 2.0, [0x55, 1])
    yield "onebit-padding", 9, payload(0x20, 0.5, 2.0, [0x55, 3])
    yield "onebit-whole", 8, payload(0x20, 0.5, 2.0, [0xFF])
    yield "onebit-short", 9, payload(0x20, 0.5, 2.0, [0x55])
    yield "onebit-long", 8, payload(0x20, 0.5, 2.0, [0x55, 0])
    yield "onebit-zero", 2, payload(0x20, 0.0, 0.0, [1])
    yield from scales("onebit-first", 0x20, lambda scale: (2, (scale, 1.0, [1])))
    yield from scales("onebit-second", 0x20, lambda scale: (2, (1.0, scale, [1])))


def scales(name, mode, of):
    """A payload with each scale that a decoder may have to refuse. of(scale): (n, parts)"""
    for kind, scale in (
        ("zero", ref.put_f32([0.0])),
        ("negative-zero", ref.put_f32([-0.0])),
        ("negative", ref.put_f32([-1.0])),
        ("infinite", ref.put_f32([float("inf")])),
        ("nan", bytes.fromhex("0000c07f")),
        ("signalling-nan", bytes.fromhex("010080ff")),
        ("subnormal", TINY),
        ("largest", bytes.fromhex("ffff7f7f")),
    ):
        n, parts = of(scale)
        yield "%s-scale-%s" % (name, kind), n, payload(mode, *parts)


def ternary():
    for mode, name in ((0x10, "zero-run"), (0x11, "packed")):
        yield name + "-no-scale", 5, payload(mode, ONE[:3])
        yield name + "-no-digits", 5, payload(mode, 1.0)
        yield name + "-of-none", 0, payload(mode, 1.0)
        yield name + "-of-none-with-digit", 0, payload(mode, 1.0, [121])
        yield name + "-short", 10, payload(mode, 1.0, [0])
        yield name + "-long", 10, payload(mode, 1.0, [0, 1, 2])
        yield name + "-zeros", 20, payload(mode, 1.0, [121] * 4)
        yield from scales(name, mode, lambda scale: (5, (scale, [120])))
    yield "packed-all-digits", 5 * 243, payload(0x11, 1.0, range(243))
    yield "packed-run-byte", 10, payload(0x11, 1.0, [243])
    yield "packed-above-limit", 5, payload(0x11, 1.0, [243])


def runs():
    yield "zero-run-without-run", 10, payload(0x10, 1.0, [0, 242])
    yield "zero-run-two", 10, payload(0x10, 1.0, [243])
    yield "zero-run-fourteen", 70, payload(0x10, 1.0, [255])
    yield "zero-run-passing-the-end", 65, payload(0x10, 1.0, [255])
    yield "zero-run-too-short", 75, payload(0x10, 1.0, [255])
    yield "zero-run-fifteen", 75, payload(0x10, 1.0, [243, 243])
    yield "zero-run-split", 80, payload(0x10, 1.0, [244, 121, 121, 250, 121, 243])
    yield "zero-run-adjacent", 80, payload(0x10, 1.0, [255, 243])
    yield "zero-run-byte-after-end", 70, payload(0x10, 1.0, [255, 121])
    yield "zero-run-endless", 70, payload(0x10, 1.0, [255] * 200)
    yield "zero-run-padding-behind-run", 66, payload(0x10, 1.0, [254, 120])
    yield "zero-run-padding-before-run", 13, payload(0x10, 1.0, [120, 243])
    yield "zero-run-padding-good-before-run", 13, payload(0x10, 1.0, [0, 243])


def padding():
    for n in range(1, 12):
        for byte in (0, 1, 80, 120, 122, 241, 242):
            digits = [121] * (-(-n // 5) - 1) + [byte]
            yield "padding-%d-last-%d" % (n, byte), n, payload(0x11, 1.0, digits)
            yield "padding-%d-end-%d" % (n, byte), n, payload(0x13, 1.0, digits)


def gaps():
    """Bits by hand: k = 3 for the first gap."""
    yield "gaps-of-none", 0, payload(0x14, 1.0)
    yield "gaps-of-none-with-byte", 0, payload(0x14, 1.0, [0])
    yield "gaps-no-bits", 3, payload(0x14, 1.0)
    yield "gaps-one", 1, payload(0x14, 1.0, [0b00001])
    yield "gaps-minus-one", 1, payload(0x14, 1.0, [0b10001])
    yield "gaps-padding", 1, payload(0x14, 1.0, [0b110001])
    yield "gaps-byte-too-many", 1, payload(0x14, 1.0, [0b10001, 0])
    yield "gaps-all-zero", 3, payload(0x14, 1.0, [0b0111])
    yield "gaps-passing-the-end", 2, payload(0x14, 1.0, [0b0111])
    yield "gaps-second-form-for-small", 9, payload(0x14, 1.0, [0, 0, 0b11, 0b000])
    yield "gaps-second-form", 151, payload(0x14, 1.0, [0, 0, 7 | 22 << 6 & 255, 22 >> 2])
    yield "gaps-second-form-to-the-end", 150, payload(0x14, 1.0, [0, 0, 7 | 22 << 6 & 255, 22 >> 2])
    yield "gaps-second-form-passing", 149, payload(0x14, 1.0, [0, 0, 7 | 22 << 6 & 255, 22 >> 2])
    yield "gaps-longest-field", 200, payload(0x14, 1.0, [0, 0, 63] + [255] * 8)
    yield from scales("gaps", 0x14, lambda scale: (1, (scale, [0b00001])))


def range_coded():
    """Damage to what the encoder writes: A is cut short, is longer, B has other bits."""
    for name, q in (
        ("short", [1, 0, -1]),
        ("long-gap", [0] * 500 + [-1, 1]),
        ("last-gap", [0, 1] + [0] * 300),
    ):
        body = ternary_coders.CODERS["range"].encode(q)
        n = len(q)
        yield "range-" + name, n, payload(0x15, 1.0, body)
        yield "range-%s-of-more" % name, n + 1, payload(0x15, 1.0, body)
        yield "range-%s-of-fewer" % name, n - 1, payload(0x15, 1.0, body)
        yield "range-%s-without-last-byte" % name, n, payload(0x15, 1.0, body[:-1])
        yield "range-%s-without-first-byte" % name, n, payload(0x15, 1.0, body[1:])
        yield "range-%s-with-byte-behind" % name, n, payload(0x15, 1.0, body, [0])
        yield "range-%s-with-byte-before" % name, n, payload(0x15, 1.0, [0], body)
        for bit in (0, 1, 6, 7):
            flipped = body[:-1] + bytes([body[-1] ^ 1 << bit])
            yield "range-%s-bit-%d" % (name, bit), n, payload(0x15, 1.0, flipped)
    yield "range-of-none", 0, payload(0x15, 1.0, [0])
    yield "range-of-none-empty", 0, payload(0x15, 1.0)
    yield "range-of-none-other", 0, payload(0x15, 1.0, [1])
    yield "range-empty", 3, payload(0x15, 1.0)
    yield "range-all-ones", 30, payload(0x15, 1.0, [255] * 20)
    yield "range-all-zeros", 30, payload(0x15, 1.0, [0] * 20)
    one = ternary_coders.CODERS["range"].encode([1])
    yield from scales("range", 0x15, lambda scale: (1, (scale, one)))


def qsgd():
    """Levels 3 (three bits a value), one bucket."""
    head = [3, 0]
    yield "qsgd", 5, payload(0x40, head, 6.0, [0b01_110_001, 0b0_010_111_1])
    yield "qsgd-negative-zero", 2, payload(0x40, head, 6.0, [0b000100])
    yield "qsgd-padding", 2, payload(0x40, head, 6.0, [0b1000001])
    yield "qsgd-short", 3, payload(0x40, head, 6.0, [1])
    yield "qsgd-long", 2, payload(0x40, head, 6.0, [1, 0])
    yield "qsgd-of-none", 0, payload(0x40, head)
    yield "qsgd-level-too-high", 2, payload(0x40, [2, 0], 6.0, [0b011])
    yield "qsgd-no-levels", 2, payload(0x40, [0, 0], 6.0, [0])
    yield "qsgd-levels-too-many", 1, payload(0x40, [0x80, 0x80, 2, 0], 6.0, [1, 0, 0])
    yield "qsgd-levels-most", 1, payload(0x40, [0xFF, 0xFF, 1, 0], 6.0, [1, 0])
    yield "qsgd-scale-of-nothing", 2, payload(0x40, head, 0.0, [0b001])
    yield "qsgd-bucket-31", 40, payload(0x40, [3, 31], 6.0, 6.0, [1] + [0] * 14)
    yield "qsgd-bucket-32", 40, payload(0x40, [3, 32], 6.0, 4.0, [1] + [0] * 13 + [32])
    yield "qsgd-bucket-of-all", 40, payload(0x40, [3, 40], 6.0, [1] * 15)
    yield "qsgd-cut-scales", 40, payload(0x40, [3, 32], 6.0)
    yield "qsgd-cut-head", 40, payload(0x40, [3])
    yield from scales("qsgd", 0x40, lambda scale: (2, (head, scale, [0b001])))
    # Elias omega: 1 is 0, 2 is 001 from the lowest bit on, 4 is 000101.
    yield "elias", 5, payload(0x41, head, 6.0, [2], [0b100_1_0_0_0])
    yield "elias-at-end", 2, payload(0x41, head, 6.0, [1], [0b0_0_001])
    yield "elias-passing-the-end", 1, payload(0x41, head, 6.0, [1], [0b0_0_001])
    yield "elias-level-too-high", 2, payload(0x41, head, 6.0, [1], [0b000101_0_0])
    yield "elias-none", 2, payload(0x41, head, 6.0, [0])
    yield "elias-more-than-n", 2, payload(0x41, head, 6.0, [3], [0, 0])
    yield "elias-padding", 2, payload(0x41, head, 6.0, [1], [0b1000])
    yield "elias-byte-too-many", 2, payload(0x41, head, 6.0, [1], [0, 0])
    yield "elias-no-bits", 2, payload(0x41, head, 6.0, [1])
    yield "elias-huge-number", 2, payload(0x41, head, 6.0, [1], [255] * 20)
    yield from scales("elias", 0x41, lambda scale: (2, (head, scale, [1], [0])))


def stepped():
    """Damage to what the encoder writes, and steps of all lengths."""
    for name, k in (
        ("short", [1, 0, -1]),
        ("all", [*range(-259, 260)]),
        ("zeros", [0] * 20),
        ("long", [0] * 300 + [200, -3, -2, 1]),
        ("lanes", [1, -1, 0, 2] + [0] * 8185 + [5, -6, 0, 1] + [0] * 8190 + [-1]),
    ):
        body, n = uniform.put_steps(k), len(k)
        yield "uniform-" + name, n, payload(0x60, 0.5, body)
        yield "uniform-%s-of-more" % name, n + 1, payload(0x60, 0.5, body)
        yield "uniform-%s-of-fewer" % name, n - 1, payload(0x60, 0.5, body)
        yield "uniform-%s-without-last-byte" % name, n, payload(0x60, 0.5, body[:-1])
        yield "uniform-%s-without-first-byte" % name, n, payload(0x60, 0.5, body[1:])
        yield "uniform-%s-with-byte-behind" % name, n, payload(0x60, 0.5, body, [0])
        flipped = body[:-1] + bytes([body[-1] ^ 1])
        yield "uniform-%s-other-end" % name, n, payload(0x60, 0.5, flipped)
    yield "uniform-of-none", 0, payload(0x60, 1.0, [0])
    yield "uniform-of-none-empty", 0, payload(0x60, 1.0)
    yield "uniform-no-scale", 3, payload(0x60, ONE[:3])
    yield "uniform-empty", 3, payload(0x60, 1.0)
    yield "uniform-all-ones", 30, payload(0x60, 1.0, [255] * 20)
    yield "uniform-all-zeros", 30, payload(0x60, 1.0, [0] * 20)
    n, length = 16384, (5).to_bytes(4, "little")
    yield "uniform-lanes-no-length", n, payload(0x60, 1.0, length[:3])
    yield "uniform-lanes-length-of-more", n, payload(0x60, 1.0, length, [0] * 4)
    yield "uniform-lanes-no-second", n, payload(0x60, 1.0, length, [0] * 5)
    one = uniform.put_steps([-2])
    yield from scales("uniform", 0x60, lambda scale: (1, (scale, one)))
    yield "uniform-scale-most", 1, payload(0x60, bytes.fromhex("e4087d7b"), one)
    yield "uniform-scale-too-large", 1, payload(0x60, bytes.fromhex("e5087d7b"), one)


def inceptionn():
    yield "inceptionn", 3, payload(0x50, [10], [0b100111, 0], 5.5, [0x83], [0x01, 0x80])
    yield "inceptionn-literal", 3, payload(0x51, [0b100111, 0], 5.5, [0x83], [0x01, 0x80])
    yield "inceptionn-negative-zero", 2, payload(0x50, [10], [0b1001, 0], [0x80], [0, 0x80])
    yield "inceptionn-all-zero", 2, payload(0x50, [10], [0, 0])
    yield "inceptionn-of-none", 0, payload(0x50, [10])
    yield "inceptionn-of-none-without-bound", 0, payload(0x50)
    yield "inceptionn-bound-3", 1, payload(0x50, [3], [1, 0], [1])
    yield "inceptionn-bound-4", 1, payload(0x50, [4], [1, 0], [1])
    yield "inceptionn-bound-20", 1, payload(0x50, [20], [1, 0], [1])
    yield "inceptionn-bound-21", 1, payload(0x50, [21], [1, 0], [1])
    yield "inceptionn-tag-past-the-end", 1, payload(0x50, [10], [0b0101, 0], [1], [1])
    yield "inceptionn-whole-group", 8, payload(0x51, [0x55, 0x55], range(8))
    yield "inceptionn-two-groups", 9, payload(0x51, [0x55, 0x55], range(8), [2, 0], [0xFF, 0x7F])
    yield "inceptionn-short", 1, payload(0x50, [10], [2, 0], [1])
    yield "inceptionn-cut-tags", 1, payload(0x50, [10], [2])
    yield "inceptionn-long", 1, payload(0x50, [10], [1, 0], [1, 0])
    yield "inceptionn-nan", 1, payload(0x50, [10], [3, 0], float("nan"))
    yield "inceptionn-infinite", 1, payload(0x51, [3, 0], float("-inf"))


def sparse():
    yield "bitmap", 9, payload(0x30, [0x82, 1], 1.0, -2.0, 0.5)
    yield "bitmap-some-zero", 9, payload(0x30, [0x82, 1], 0.0, -2.0, -0.0)
    yield "bitmap-all-zero", 9, payload(0x30, [0x82, 1], 0.0, -0.0, 0.0)
    yield "bitmap-of-nothing", 9, payload(0x30, [0, 0])
    yield "bitmap-of-none", 0, payload(0x30)
    yield "bitmap-padding", 9, payload(0x30, [0x82, 2], 1.0, -2.0, 0.5)
    yield "bitmap-value-missing", 9, payload(0x30, [0x82, 1], 1.0, -2.0)
    yield "bitmap-value-too-many", 9, payload(0x30, [0x82, 0], 1.0, -2.0, 3.0)
    yield "bitmap-short", 9, payload(0x30, [0x82])
    yield "bitmap-infinite", 9, payload(0x30, [0x82, 1], 1.0, -2.0, float("inf"))
    yield "bitmap-nan", 9, payload(0x30, [0x82, 1], float("nan"), -2.0, 1.0)
    for r, bits_ in ((0, [0b10010]), (1, [0b1011]), (2, [0b101011])):
        yield "index-set-parameter-%d" % r, 9, payload(0x31, [2, r], bits_, 1.0, -2.0)
    yield "index-set-last", 9, payload(0x31, [1, 31], [1 | 16, 0, 0, 0], 1.0)
    yield "index-set-at-n", 8, payload(0x31, [1, 31], [1 | 16, 0, 0, 0], 1.0)
    yield "index-set-parameter-too-large", 9, payload(0x31, [1, 32], [1, 0, 0, 0, 0], 1.0)
    yield "index-set-of-nothing", 9, payload(0x31, [0, 0])
    yield "index-set-more-than-n", 2, payload(0x31, [3, 0], [7], 1.0, 1.0, 1.0)
    yield "index-set-of-all", 2, payload(0x31, [2, 0], [3], 1.0, 1.0)
    yield "index-set-padding", 2, payload(0x31, [2, 0], [7], 1.0, 1.0)
    yield "index-set-byte-too-many", 2, payload(0x31, [2, 0], [3, 0], 1.0, 1.0)
    yield "index-set-bits-missing", 9, payload(0x31, [2, 0], [0], 1.0, 1.0)
    yield "index-set-no-bits", 9, payload(0x31, [2, 0], 1.0, 1.0)
    yield "index-set-values-missing", 9, payload(0x31, [2, 0], [3], 1.0)
    yield "index-set-long-count", 9, payload(0x31, [0x81, 0, 0], [1], 1.0)
    yield "index-set-huge-count", 9, payload(0x31, [255] * 9 + [1], [0], [1], 1.0)
    yield "index-set-cut-count", 9, payload(0x31, [0x81])
    yield "index-set-no-parameter", 9, payload(0x31, [1])
    yield "index-set-all-zero", 9, payload(0x31, [2, 0], [3], 0.0, -0.0)
    yield "index-set-nan", 9, payload(0x31, [2, 0], [3], 1.0, float("nan"))
    yield "sparse-indices", 9, payload(0x32, [2, 0], [3])
    yield "sparse-shared", 9, payload(0x33, 1.0)


GROUPS = (modes, dense, ternary, runs, padding, gaps, range_coded, qsgd, stepped, inceptionn, sparse)


def cases():
    for group in GROUPS:
        for name, n, data in group():
            yield line("payload", name, str(n), data.hex())
            try:
                yield line("values", bits(ref.decode(data, n))) + "\n"
            except ref.Refused as refused:
                yield line("refused", str(refused)) + "\n"
