"""FORMAT.md section 7: random numbers."""

CODEC = 6  # purpose


def philox(key, counter):
    mask = 2**32 - 1
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p, r = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (r >> 32) ^ c1 ^ k0, r & mask, (p >> 32) ^ c3 ^ k1, p & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0, c1, c2, c3


def block(seed, purpose, a, b, index):
    """The four words of one block of a stream."""
    counter = (index % 2**32, (purpose << 16) + (index >> 32), a, b)
    return philox((seed % 2**32, seed >> 32), counter)


def stream(seed, purpose, a, b, first=0):
    """Draws of a stream from block `first` on."""
    while True:
        yield from block(seed, purpose, a, b, first)
        first += 1


def uniform(draw):
    """In [0, 1)."""
    return (draw >> 8) / 2**24


def below(draws, bound):
    """Uniform in [0, bound), of a stream."""
    for draw in draws:
        if draw * bound % 2**32 >= (2**32 - bound) % bound:
            return draw * bound >> 32
    raise AssertionError("a stream has no end")


def of_codec(context):
    """The draws of a segment's values, one for each, in order of their index: from draw
    segment * 2^34 on, which is block segment * 2^32."""
    return stream(context.seed, CODEC, context.round, context.client, context.segment << 32)
