"""The cryptography that FORMAT.md section 12 names, written from the RFCs: X25519 (7748), HKDF (5869), ChaCha20-Poly1305
(8439), HPKE base mode (9180), and verification of ECDSA on P-256 (FIPS 186-4). Slow, and not for secrets."""

import hashlib
import hmac
import struct

from .values import Refused

P25519 = 2**255 - 19


def x25519(scalar, point):
    """The shared secret; `point` 9 gives the public key of `scalar`."""
    k = int.from_bytes(scalar, "little") & ~7 & (2**255 - 1) | 2**254
    x1 = int.from_bytes(point, "little") & (2**255 - 1)
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for bit in range(254, -1, -1):
        now = k >> bit & 1
        if now != swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = now
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a, b * b, d * a, c * b
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P25519, x1 * (da - cb) ** 2 % P25519
        x2, z2 = aa * bb % P25519, e * (aa + 121665 * e) % P25519
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P25519 - 2, P25519) % P25519).to_bytes(32, "little")


BASE_POINT = bytes([9]) + bytes(31)


def extract(salt, secret):
    return hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()


def expand(key, info, size):
    block, out = b"", b""
    for i in range(1, (size + 31) // 32 + 1):
        block = hmac.new(key, block + info + bytes([i]), hashlib.sha256).digest()
        out += block
    return out[:size]


def rotated(x, bits):
    return (x << bits | x >> (32 - bits)) & 0xFFFFFFFF


def quarter(s, a, b, c, d):
    for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & 0xFFFFFFFF
        s[z] = rotated(s[z] ^ s[x], bits)


def chacha20_block(key, counter, nonce):
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key), counter,
             *struct.unpack("<3I", nonce)]
    s = list(start)
    for _ in range(10):
        for i in range(4):
            quarter(s, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(s, start)))


def chacha20(key, size, counter=0, nonce=bytes(12)):
    """`size` bytes of the keystream."""
    blocks = (size + 63) // 64
    return b"".join(chacha20_block(key, counter + i, nonce) for i in range(blocks))[:size]


def poly1305(key, message):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def padded(data):
    return data + bytes(-len(data) % 16)


def seal_aead(key, nonce, aad, plain):
    cipher = bytes(a ^ b for a, b in zip(plain, chacha20(key, len(plain), 1, nonce)))
    tagged = padded(aad) + padded(cipher) + struct.pack("<QQ", len(aad), len(cipher))
    return cipher + poly1305(chacha20(key, 32, 0, nonce), tagged)


KEM_SUITE = b"KEM" + struct.pack(">H", 0x20)
HPKE_SUITE = b"HPKE" + struct.pack(">HHH", 0x20, 1, 3)


def labelled_extract(suite, salt, label, secret):
    return extract(salt, b"HPKE-v1" + suite + label + secret)


def labelled_expand(suite, key, label, info, size):
    return expand(key, struct.pack(">H", size) + b"HPKE-v1" + suite + label + info, size)


def hpke_seal(public_key, ephemeral, info, aad, plain):
    enc = x25519(ephemeral, BASE_POINT)
    prk = labelled_extract(KEM_SUITE, b"", b"eae_prk", x25519(ephemeral, public_key))
    shared = labelled_expand(KEM_SUITE, prk, b"shared_secret", enc + public_key, 32)
    context = (b"\0" + labelled_extract(HPKE_SUITE, b"", b"psk_id_hash", b"")
               + labelled_extract(HPKE_SUITE, b"", b"info_hash", info))
    secret = labelled_extract(HPKE_SUITE, shared, b"secret", b"")
    key = labelled_expand(HPKE_SUITE, secret, b"key", context, 32)
    nonce = labelled_expand(HPKE_SUITE, secret, b"base_nonce", context, 12)
    return enc + seal_aead(key, nonce, aad, plain)


# --- ECDSA on P-256

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
G = (0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
     0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5)


def add(a, b):
    """The sum of two points; None is the point at infinity."""
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and (a[1] + b[1]) % P == 0:
        return None
    if a == b:
        slope = (3 * a[0] ** 2 - 3) * pow(2 * a[1], P - 2, P) % P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], P - 2, P) % P
    x = (slope**2 - a[0] - b[0]) % P
    return x, (slope * (a[0] - x) - a[1]) % P


def times(k, point):
    total = None
    while k:
        total = add(total, point) if k & 1 else total
        point = add(point, point)
        k >>= 1
    return total


def p256_verify(public_key, digest, signature):
    x, y = (int.from_bytes(public_key[i : i + 32], "big") for i in (1, 33))
    r, s = (int.from_bytes(signature[i : i + 32], "big") for i in (0, 32))
    on_curve = public_key[0] == 4 and x < P and y < P and (y * y - x**3 + 3 * x - B) % P == 0
    if not on_curve or not 0 < r < ORDER or not 0 < s < ORDER:
        raise Refused("unauthorized")
    inverse = pow(s, ORDER - 2, ORDER)
    u, v = int.from_bytes(digest, "big") * inverse % ORDER, r * inverse % ORDER
    point = add(times(u, G), times(v, (x, y)))
    if point is None or point[0] % ORDER != r:
        raise Refused("unauthorized")
