#!/usr/bin/env python3
"""Runs libtern beside the reference of secure rounds, which was written from FORMAT.md section 12: the same descriptors,
masked updates, error buffers, scales and tickets, on random inputs; and the example in PROTOCOL.md.

    secure_client.py DRIVER PROTOCOL.md
    secure_client.py --example    prints the example's lines
"""

import pathlib
import random
import re
import struct
import subprocess
import sys
import unittest

from tern_reference import Model, Refused, crypto, f32, get_f32, put_f32, secure

SPECS = ["softmax:3-2", "softmax:9-4", "mlp:7-5-3", "mlp:30-20-3", "linear:6-1,loss=mse"]


class Libtern:
    def __init__(self, driver):
        self.driver = driver

    def ask(self, *words):
        line = " ".join(word.hex() if isinstance(word, bytes) else str(word) for word in words)
        answer = subprocess.run([self.driver], input=line + "\n", text=True, check=True, stdout=subprocess.PIPE).stdout
        return [bytes.fromhex(word) for word in answer.split()]


def random_values(rng, count, size):
    """Some are 0, and some are equal in magnitude."""
    return [f32(rng.gauss(0, size)) if rng.random() < 0.7 else rng.choice([0.0, 0.125, -0.125]) for _ in range(count)]


def random_facts(rng, model, **fixed):
    level, cohort = rng.choice([1, 1, 1, 2, 5]), rng.choice([2, 10, 100, 1000])
    scales = [f32(10 ** rng.uniform(-3, 0)) for _ in secure.sent_tensors(model)]
    noise = rng.choice([0, 0, 1, 500, 1100])
    places_max = rng.choice([1, 5, 30, 2000] if noise else [0, 0, 1, 5, 30])
    groups = rng.choice([0, 3, 5, 9]) if cohort >= 100 else 0
    fields = {
        "federation": rng.randbytes(32), "round": rng.randrange(1, 2**32), "replica": rng.randbytes(32),
        "model_hash": model.hash(), "local_steps": rng.randrange(1, 100), "batch_size": rng.randrange(1, 64),
        "learning_rate": f32(rng.random()), "momentum": f32(rng.random()), "weight_decay": f32(rng.random() / 100),
        "prox_mu": f32(rng.random() / 10), "directive": 0, "decay": 0.0, "level": level,
        "bits": secure.bits_for(cohort, level, places_max, noise, len(scales), groups), "cohort": cohort,
        "min_clients": rng.randrange(2, cohort // (groups or 1) + 1), "groups": groups,
        "share": rng.choice([1, 2, 10]), "places_seed": rng.randrange(2**64), "places_max": places_max, "noise": noise,
        "examples_max": 0 if noise else rng.choice([0, 0, 100, 1000]), "epoch": rng.randrange(1, 2**32),
    }
    return secure.Facts(scales, **{**fields, **fixed})


def give_back(model, facts, packed, values):
    """FORMAT.md 12.3."""
    sent = list(secure.places(model, facts))
    _, fields = secure.unpack(packed, 2 + len(facts.scales), len(sent), facts.bits)
    values = list(values)
    for (at, tensor), field in zip(sent, fields):
        q = field - 2**facts.bits if field >= 2 ** (facts.bits - 1) else field
        values[at] = f32(values[at] + f32(facts.scales[tensor] * q))
    return values


EXAMPLE_NONCE = 0x0123456789ABCDEF
EXAMPLE_CHANGE = [f32(v) for v in (0.02, -0.02, 0.004, 0.2, -0.2, 0, 0.03, -0.001)]


def example():
    """{name: bytes} of the example in PROTOCOL.md."""
    model = Model("softmax:3-2")
    federation = secure.federation_id(model.hash(), 5)
    helper, ephemeral, secret = bytes([0x22]) * 32, bytes([0x33]) * 32, bytes([0x11]) * 32
    helper_key = crypto.x25519(helper, crypto.BASE_POINT)
    facts = secure.Facts(
        [f32(0.02), f32(0.01)], federation=federation, round=1, replica=secure.weights_hash(model.initial_weights(5)),
        model_hash=model.hash(), local_steps=10, batch_size=16, learning_rate=f32(0.1), momentum=0.0, weight_decay=0.0, prox_mu=0.0, directive=0,
        decay=0.0, level=1, bits=8, cohort=100, min_clients=50, groups=0, share=1, places_seed=99, places_max=0, noise=0, examples_max=100,
        epoch=12)
    packed, buffer = secure.encode(model, facts, [0.0] * 8, EXAMPLE_CHANGE, 50, 0.5)
    return {
        "federation": federation, "helper-key": helper_key,
        "ticket": secure.seal_ticket(federation, 7, 12, helper_key, ephemeral, secret, b"R7K2-9FQM"),
        "facts": facts.encode(), "descriptor": facts.descriptor(),
        "key": secure.mask_key(secret, facts.descriptor(), EXAMPLE_NONCE), "packed": packed,
        "container": secure.masked_update(model, facts, secret, EXAMPLE_NONCE, packed), "error-buffer": put_f32(buffer),
    }


def print_example():
    for name, data in example().items():
        for at in range(0, len(data), 32):
            print(f"{name if at == 0 else '':13}{data[at : at + 32].hex()}")


class Secure(unittest.TestCase):
    driver, document = None, None

    def test_the_cryptography_is_that_of_the_rfcs(self):
        plain = bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479")
        sealed = crypto.hpke_seal(
            bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a"),
            bytes.fromhex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600"),
            bytes.fromhex("4f6465206f6e2061204772656369616e2055726e"), b"Count-0", plain)
        self.assertEqual(sealed[32:].hex(), "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db2"
                                            "1993c62ce81883d2dd1b51a28")

    def test_masked_updates(self):
        rng = random.Random(1)
        for case in range(60):
            model = Model(rng.choice(SPECS))
            facts = random_facts(rng, model)
            secret, nonce = rng.randbytes(32), rng.randrange(2**64)
            examples, loss = rng.choice([1, 77, 5000000]), f32(rng.choice([0.3, -1, 2.5, 1e9]))
            buffer, change = (random_values(rng, model.count, 0.1) for _ in range(2))
            packed, after = secure.encode(model, facts, buffer, change, examples, loss)
            spec = [s for s in SPECS if Model(s).hash() == model.hash()][0]
            answer = self.driver.ask("masked", spec, facts.encode(), secret, nonce, examples,
                                     put_f32([loss]), put_f32(buffer), put_f32(change))
            self.assertEqual(answer[0], facts.descriptor(), case)
            self.assertEqual(answer[1], secure.masked_update(model, facts, secret, nonce, packed), case)
            self.assertEqual(answer[2], put_f32(after), case)
            self.assertEqual(answer[3], put_f32(give_back(model, facts, packed, after)), case)

    def test_sums(self):
        rng = random.Random(2)
        for case in range(60):
            spec = rng.choice(SPECS)
            model = Model(spec)
            facts = random_facts(rng, model)
            weights = random_values(rng, model.count, rng.choice([0.0, 0.2]))
            clients = rng.sample(range(1, rng.choice([2, 2**40]) * facts.cohort), rng.randrange(max(2, facts.groups), facts.cohort + 1))
            groups = secure.groups_of(facts, clients)
            sizes = [groups.count(group) for group in range(facts.groups or 1)]
            count = sum(1 for _ in secure.places(model, facts))
            most = rng.choice([max(sizes) * count, 2**32 - 1])
            sums = [secure.pack([0, 0] + [rng.randrange(most + 1) for _ in facts.scales],
                                [rng.randrange(2**facts.bits) for _ in range(count)], facts.bits) for _ in sizes]
            parts = list(zip(sums, sizes))
            first, replica, divided, following, change = self.driver.ask(
                "sums", spec, facts.encode(), put_f32(weights), struct.pack("<%dQ" % len(clients), *clients), b"".join(sums))
            self.assertEqual(get_f32(first), secure.first_scales(model, facts, weights), case)
            self.assertEqual(replica, secure.weights_hash(weights), case)
            self.assertEqual(list(divided), groups, case)
            self.assertEqual(get_f32(following), secure.next_scales(model, facts, parts), case)
            self.assertEqual(change, put_f32(secure.change_of(model, facts, parts)), case)

    def test_tickets(self):
        rng = random.Random(3)
        for _ in range(8):
            federation, helper, ephemeral, secret = (rng.randbytes(32) for _ in range(4))
            client, epoch, code = rng.randrange(2**63), rng.randrange(2**32), rng.randbytes(rng.randrange(1, 65))
            public, ticket = self.driver.ask("ticket", federation, client, epoch, helper, ephemeral, secret, code)
            self.assertEqual(public, crypto.x25519(helper, crypto.BASE_POINT))
            self.assertEqual(ticket, secure.seal_ticket(federation, client, epoch, public, ephemeral, secret, code))

    def test_signatures_of_helper_keys(self):
        rng = random.Random(4)
        federation, public = rng.randbytes(32), rng.randbytes(32)
        verifying, signature = self.driver.ask("helper-key", rng.randbytes(32), federation, 12, public)
        secure.check_helper_key(verifying, federation, 12, public, signature)
        for epoch, key, signed in ((13, public, signature), (12, bytes(32), signature), (12, public, bytes(64))):
            with self.assertRaises(Refused):
                secure.check_helper_key(verifying, federation, epoch, key, signed)

    def test_ends_of_the_helper_s_log(self):
        rng = random.Random(5)
        federation, head, other = (rng.randbytes(32) for _ in range(3))
        private = rng.randbytes(32)
        verifying, signature = self.driver.ask("helper-log", private, federation, 700, head)
        for last in (None, (700, head), (699, other)):
            secure.check_log(verifying, federation, last, (700, head), signature)
        for last, log in ((None, (701, head)), (None, (700, other)), ((701, head), (700, head)), ((700, other), (700, head))):
            with self.assertRaises(Refused):
                secure.check_log(verifying, federation, last, log, signature)
        with self.assertRaises(Refused):
            secure.check_log(verifying, other, None, (700, head), signature)

    def test_the_example_of_the_protocol(self):
        block = re.search(r"^```text secure\n(.*?)^```", self.document, re.M | re.S).group(1)
        found, name = {}, ""
        for line in block.splitlines():
            name = line[:13].strip() or name
            found[name] = found.get(name, "") + line[13:].strip()
        self.assertEqual(found, {name: data.hex() for name, data in example().items()})
        facts = bytes.fromhex(found["facts"])
        answer = self.driver.ask("masked", "softmax:3-2", facts, bytes([0x11]) * 32, EXAMPLE_NONCE, 50, put_f32([0.5]),
                                 put_f32([0.0] * 8), put_f32(EXAMPLE_CHANGE))
        self.assertEqual([data.hex() for data in answer[:3]],
                         [found["descriptor"], found["container"], found["error-buffer"]])


if __name__ == "__main__":
    if sys.argv[1] == "--example":
        print_example()
    else:
        Secure.driver = Libtern(sys.argv[1])
        Secure.document = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8")
        unittest.main(argv=sys.argv[:1])
