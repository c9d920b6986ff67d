"""FORMAT.md section 12: the client's side of secure rounds."""

import hashlib
import itertools
import math
import struct

from . import crypto
from .draws import stream
from .model import COMPRESS, FUSE
from .values import Refused, bits_of, f32, from_bits

PLACES = 11  # purpose
LEAST, LARGEST = 2.0**-126, from_bits(0x7F7FFFFF)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def federation_id(model_hash, seed):
    return sha256(b"tern federation v1", model_hash, struct.pack("<Q", seed))


def counter_max(level, places_max, tensors):
    """12.5: the largest counter of a tensor."""
    return max(1, math.isqrt(level**2 * places_max // (25 * tensors)))


def variance(level, places_max, noise, tensors):
    """12.5: of the noise on a value of the sum."""
    norm = level**2 * places_max + tensors * counter_max(level, places_max, tensors) ** 2
    return -(-(noise**2) * norm // 10**6)


def bits_for(cohort, level, places_max=0, noise=0, tensors=0, groups=0):
    most = -(-cohort // (groups or 1)) * level + (math.isqrt(95 * variance(level, places_max, noise, tensors)) + 1 if noise else 0)
    return (2 * most).bit_length()


# --- 12.1 Facts, keys and tickets


class Facts:
    """A round's facts. Fields as in the canonical bytes."""

    ORDER = ("federation:32s round:I replica:32s model_hash:32s local_steps:I batch_size:I learning_rate:f momentum:f "
             "weight_decay:f prox_mu:f directive:I decay:f level:I bits:I cohort:I min_clients:I groups:I share:I places_seed:Q "
             "places_max:I noise:I examples_max:I epoch:Q").split()

    def __init__(self, scales, **fields):
        self.scales = scales
        self.__dict__.update(fields)

    def encode(self):
        data = b"tern secure round v1"
        for field in self.ORDER:
            name, code = field.split(":")
            data += struct.pack("<" + code, getattr(self, name))
        return data + struct.pack("<I%df" % len(self.scales), len(self.scales), *self.scales)

    def descriptor(self):
        return sha256(self.encode())


def weights_hash(weights):
    return sha256(struct.pack("<%df" % len(weights), *weights))


def mask_key(secret, descriptor, nonce):
    info = b"tern mask v1" + descriptor + struct.pack("<Q", nonce)
    return crypto.expand(crypto.extract(b"", secret), info, 32)


def seal_ticket(federation, client, epoch, helper_key, ephemeral, secret, code):
    aad = federation + struct.pack("<QQ", client, epoch)
    return crypto.hpke_seal(helper_key, ephemeral, b"tern ticket v1", aad, secret + code)


def check_helper_key(signing_key, federation, epoch, public_key, signature):
    """Refuses a key of the helper that it did not sign."""
    statement = sha256(b"tern helper key v1", federation, struct.pack("<Q", epoch), public_key)
    crypto.p256_verify(signing_key, statement, signature)


def check_log(signing_key, federation, last, log, signature):
    """Refuses the end of the helper's log in a task. log: (number of entries, head). last: that of the last masked update, or
    None."""
    count, head = log
    crypto.p256_verify(signing_key, sha256(b"tern helper head v1", federation, struct.pack("<Q", count), head), signature)
    if last is not None and count < last[0]:
        raise Refused("the log has fewer entries than before")
    if last is not None and count == last[0] and head != last[1]:
        raise Refused("there are two logs")


# --- 12.2 Packed vectors


def sent_tensors(model):
    """(offset, number of values) of each tensor that is sent, in the order of the flat vector."""
    sent = []
    for rule in (COMPRESS, FUSE):
        for i, (_, dims, _) in enumerate(model.tensors):
            if model.rules[i] == rule:
                sent.append((model.offsets[i], math.prod(dims)))
    return sent


def places(model, facts):
    """(index, tensor) of each value that is sent."""
    tensors = sent_tensors(model)
    coded = sum(count for _, count in tensors)
    draws = stream(facts.places_seed, PLACES, 0, 0)
    for first in range(0, coded, facts.share):
        size = min(facts.share, coded - first)
        at = first + (next(draws) * size >> 32 if facts.share > 1 else 0)
        yield at, next(t for t, (offset, count) in enumerate(tensors) if offset <= at < offset + count)


def pack(counters, values, bits):
    total = sum((value % 2**bits) << (i * bits) for i, value in enumerate(values))
    words = (len(values) * bits + 31) // 32
    return struct.pack("<%dI" % len(counters), *counters) + total.to_bytes(4 * words, "little")


def unpack(packed, counters, count, bits):
    total = int.from_bytes(packed[4 * counters :], "little")
    return (list(struct.unpack_from("<%dI" % counters, packed)),
            [total >> (i * bits) & (2**bits - 1) for i in range(count)])


def masked(packed, counters, count, bits, key):
    """The packed vector under the mask of this key."""
    plain, mask = (unpack(data, counters, count, bits) for data in (packed, crypto.chacha20(key, len(packed))))
    return pack([(a + b) % 2**32 for a, b in zip(plain[0], mask[0])],
                [a + b for a, b in zip(plain[1], mask[1])], bits)


def groups_of(facts, clients):
    """The group of each client of a list, in the list's order."""
    keys = [client * 0x9E3779B97F4A7C15 % 2**64 for client in clients]
    rank = {key: place for place, key in enumerate(sorted(keys))}
    return [rank[key] * (facts.groups or 1) // len(clients) for key in keys]


# --- 12.3 Quantising


def weight(facts, examples):
    if facts.examples_max == 0 or examples >= facts.examples_max:
        return 1.0
    return f32(examples / facts.examples_max)


def counters(facts, examples, loss):
    if facts.noise:
        return [0, 0]
    most = (2**32 - 1) // facts.cohort
    count = min(examples, facts.examples_max) if facts.examples_max else examples
    fixed = 4096 * (loss * weight(facts, examples)) + 0.5
    fixed = most if math.isnan(fixed) else min(most, max(0, fixed))
    return [min(count, most), int(fixed)]


def bounded(facts, not_zero, sent):
    """The counters of tensors in a round with noise."""
    most = counter_max(facts.level, facts.places_max, len(facts.scales))
    target = min(1.0, facts.places_max / len(sent))
    values = [sum(tensor == t for _, tensor in sent) for t in range(len(facts.scales))]
    return [int(min(most, most * (count / number / (2 * target))) + 0.5) if number else 0
            for count, number in zip(not_zero, values)]


def encode(model, facts, buffer, change, examples, loss):
    """The packed vector without a mask, and the next error buffer, which stays float32. buffer, change: all coded values."""
    w = weight(facts, examples)
    sent = list(places(model, facts))
    at_sent = {at for at, _ in sent}
    t = [f32(e + (f32(w * x) if i in at_sent else 0)) for i, (e, x) in enumerate(zip(buffer, change))]
    values, not_zero = [], [0] * len(facts.scales)
    ratios = [f32(t[at] / facts.scales[tensor]) for at, tensor in sent]
    steps = [round(max(-facts.level, min(facts.level, ratio))) for ratio in ratios]  # ties to even
    nearest = list(steps)
    if facts.places_max:
        largest = sorted((i for i, q in enumerate(steps) if q), key=lambda i: (-abs(ratios[i]), i))
        for i in largest[facts.places_max :]:
            steps[i] = 0
    for (at, tensor), q, before in zip(sent, steps, nearest):
        scale = facts.scales[tensor]
        t[at] = f32(t[at] - f32(scale * q))
        values.append(q)
        not_zero[tensor] += (before if facts.noise else q) != 0
    not_zero = bounded(facts, not_zero, sent) if facts.noise else not_zero
    return pack(counters(facts, examples, loss) + not_zero, values, facts.bits), t


def masked_update(model, facts, secret, nonce, encoded):
    key = mask_key(secret, facts.descriptor(), nonce)
    count = sum(1 for _ in places(model, facts))
    return masked(encoded, 2 + len(facts.scales), count, facts.bits, key)


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def change_of(model, facts, sums):
    """The change of the model. sums: [(packed sum, weight)] of each group."""
    sent = list(places(model, facts))
    fields = [unpack(packed, 2 + len(facts.scales), len(sent), facts.bits)[1] for packed, _ in sums]
    divisors = [math.sqrt(weight * weight + (facts.noise / 1000) ** 2 * len(sent)) for _, weight in sums]
    change = [0.0] * model.count
    for i, (at, tensor) in enumerate(sent):
        signed = [row[i] - 2**facts.bits if row[i] >= 2 ** (facts.bits - 1) else row[i] for row in fields]
        change[at] = f32(median([facts.scales[tensor] * q / divisor for q, divisor in zip(signed, divisors)]))
    return change


# --- 12.4 Public scales


def limited(scale):
    return f32(min(LARGEST, max(LEAST, scale)))


def mean_magnitude(values):
    return sum(map(abs, values)) / len(values)


def first_scales(model, facts, weights):
    tensors = sent_tensors(model)
    coded = sum(count for _, count in tensors)
    step = 0.25 * facts.learning_rate * facts.local_steps
    whole = mean_magnitude(weights[:coded]) or 0.04
    return [limited(step * (mean_magnitude(weights[at : at + count]) or whole)) for at, count in tensors]


def factor(facts, counter, values, clients):
    """Of a tensor's scale: excess is its density divided by the target."""
    excess, gain = counter / (values * clients) / 0.1, 0.5
    if facts.noise:
        signed = counter - 2**32 if counter >= 2**31 else counter
        tensors = len(facts.scales)
        target = counter_max(facts.level, facts.places_max, tensors) * clients / 2
        excess = max(0.0, signed / target)
        gain *= target**2 / (target**2 + variance(facts.level, facts.places_max, facts.noise, tensors))
    return min(2.0, 1 - gain + gain * excess)


def next_scales(model, facts, sums):
    """sums: [(packed sum, number of clients)] of each group."""
    sent = [0] * len(facts.scales)
    for _, tensor in places(model, facts):
        sent[tensor] += 1
    not_zero = [struct.unpack_from("<%dI" % len(sent), packed, 8) for packed, _ in sums]
    middle = [median([factor(facts, row[t], count, clients) for row, (_, clients) in zip(not_zero, sums)]) if count else 1
              for t, count in enumerate(sent)]
    return [limited(s * m) if count else s for s, m, count in zip(facts.scales, middle, sent)]
