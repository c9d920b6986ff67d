"""One peer among others that the test plays itself, frame by frame as docs/RING.md has them."""
import hashlib
import json
import re
import socket
import ssl
import struct
import time
import unittest

from peers import PATIENCE, Ring

HELLO, VIEW, BLOCK, MODEL, PULSE, TERMS = range(1, 7)
VALUES = 24 * 32 + 32 + 32 * 8 + 8


class Hand:
    """A peer that dials p0."""

    def __init__(self, ring, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(ring.folder / "ca.crt")
        context.load_cert_chain(ring.folder / f"{name}.crt", ring.folder / f"{name}.key")
        end = time.monotonic() + PATIENCE
        while True:
            try:
                plain = socket.create_connection(("127.0.0.1", ring.ports[0]))
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end
                time.sleep(.05)
        plain.settimeout(PATIENCE)
        self.stream = context.wrap_socket(plain)
        self.terms = None  # what p0 says first

    def send(self, kind, epoch, body=b""):
        self.stream.sendall(b"TR" + struct.pack("<BBII", 1, kind, epoch, len(body)) + body)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.stream.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def take(self, kind, epoch):
        """The body of the next frame, but for pulses and the terms that come first."""
        end = time.monotonic() + PATIENCE
        while True:
            assert time.monotonic() < end, f"nothing but pulses instead of {kind} of epoch {epoch}"
            start, version, found, its, length = struct.unpack("<2sBBII", self.exactly(12))
            assert (start, version) == (b"TR", 1)
            body = self.exactly(length)
            if self.terms is None:
                assert (found, its) == (TERMS, 0), (found, its)
                self.terms = body.decode()
            elif found != PULSE:
                assert (found, its) == (kind, epoch), (found, its, kind, epoch)
                return body

    def is_cut(self):
        try:
            while True:
                self.exactly(1)
        except (EOFError, OSError):
            return True


def float32_block(values):
    payload = b"\x01" + struct.pack(f"<{len(values)}f", *values)
    length = len(payload)
    varint = b""
    while length > 127:
        varint += bytes([length & 127 | 128])
        length >>= 7
    return varint + bytes([length]) + payload


class ByHand(unittest.TestCase):
    def setUp(self):
        self.ring = Ring(3, **{"ring.timeout": "10s", "ring.rounds": 1, "ring.evaluate_every": 0})
        self.addCleanup(self.ring.__exit__)
        status = json.loads(self.ring.verb("p0", "status").stdout)
        self.agreement = bytes.fromhex(status["agreement"])
        self.model = bytes.fromhex(status["model"])

    def start(self):
        self.ring.start("p0")
        self.hands = [Hand(self.ring, name) for name in ("p1", "p2")]
        for hand in self.hands:
            self.addCleanup(hand.stream.close)

    def hello(self, epoch, version=0, model=None):
        for hand in self.hands:
            hand.send(HELLO, epoch, self.agreement + struct.pack("<I", version) + (model or self.model))

    def views(self, epoch, view):
        for hand in self.hands:
            hand.send(VIEW, epoch, struct.pack("<Q", view))

    def agree(self, epoch=1):
        self.hello(epoch)
        for hand in self.hands:
            self.assertEqual(hand.take(HELLO, epoch), self.agreement + bytes(4) + self.model)
            self.assertEqual(hand.take(VIEW, epoch), struct.pack("<Q", 7))
        self.views(epoch, 7)

    def test_one_that_was_left_out_comes_in_with_the_next_epoch(self):
        """A pulse behind a view must not hide the next hello: then all wait for each other for ever."""
        self.start()
        self.hello(1)
        for hand in self.hands:
            hand.take(HELLO, 1)
            hand.take(VIEW, 1)
        self.views(1, 6)  # they have not heard p0
        for hand in self.hands:
            hand.send(PULSE, 1)
        time.sleep(.5)
        self.agree(2)
        self.assertEqual(self.hands[0].take(BLOCK, 2)[:4], struct.pack("<HH", 0, 0))

    def test_a_view_that_comes_early_hides_no_hello(self):
        """p0 waits for a hello of p2, which may wait for what p0 does once it has heard p1's next hello."""
        self.start()
        one = self.hands[0]
        mine = self.agreement + bytes(4) + self.model
        one.send(HELLO, 1, mine)
        one.send(VIEW, 1, struct.pack("<Q", 3))
        one.send(PULSE, 1)
        one.send(HELLO, 2, mine)
        for epoch in (1, 2):
            self.assertEqual(one.take(HELLO, epoch), mine)

    def test_one_that_is_set_otherwise_is_answered_and_not_there(self):
        self.start()
        wrong, right = self.hands
        mine = self.agreement + bytes(4) + self.model
        wrong.send(HELLO, 7, bytes(32) + bytes(4) + self.model)
        for _ in range(2):
            self.assertEqual(wrong.take(HELLO, 1), mine)
        for epoch in (1, 2):
            right.send(HELLO, epoch, mine)
            self.assertEqual(right.take(HELLO, epoch), mine)
            self.assertEqual(right.take(VIEW, epoch), struct.pack("<Q", 5))
            right.send(VIEW, epoch, struct.pack("<Q", 5))
            right.take(BLOCK, epoch)
            wrong.send(HELLO, 9, bytes(32) + bytes(4) + self.model)  # again: it is not heard
        log = self.ring.log("p0")
        self.assertEqual(log.count("event=peer-refused name=p1 "), 1)
        self.assertNotIn("event=peer-lost", log)

    def test_terms_are_as_documented(self):
        """They come first, once, and of what differs from this end's both values are said."""
        self.start()
        wrong, right = self.hands
        right.take(HELLO, 1)
        lines = [line.split(" ", 1) for line in right.terms.splitlines()]
        self.assertEqual([name for name, _ in lines], ["model", "codec", "seed", "learning_rate", "peers"])
        terms = dict(lines)
        spec, digest = terms["model"].split()
        self.assertEqual((spec, len(bytes.fromhex(digest))), ("mlp:24-32-8", 32))
        self.assertEqual([terms[name] for name in ("codec", "seed", "learning_rate", "peers")],
                         ["float32", "1", "0.05", "p0 p1 p2"])
        # One that says them twice is cut; what is no text of this kind is as nothing.
        wrong.send(TERMS, 0, b"codec int8\n")
        wrong.send(TERMS, 0, b"codec int8\n")
        self.refused(wrong, "the peer sent its settings twice")
        for said, why in ((b"\0codec int8\n", "the list of peers, model, seed, codec or learning rate differs; set"),
                          (b"\xff\x1b[2J codec\ncodec\ncodec \x1b[2Jint8\nseed 1\nmore 5", r"ring\.codec is \?\[2Jint8 there and float32 here; set"),
                          (b"codec " + b"x" * 8186, r"ring\.codec is x{96}\.\.\. there and float32 here; set"),
                          (b"model mlp:9 00\nseed 2", "ring.model is mlp:9 there and mlp:24-32-8 here; ring.seed is 2 there and 1 here; set"),
                          (b"\n\n\n", "the list of peers, model, seed, codec or learning rate differs; set")):
            with self.subTest(said=said):
                stranger = Hand(self.ring, "p1")
                stranger.send(TERMS, 0, said)
                stranger.send(HELLO, 1, bytes(32) + bytes(4) + self.model)
                end = time.monotonic() + PATIENCE
                while not re.search(f'event=peer-refused name=p1 why="{why}', self.ring.log("p0")):
                    self.assertLess(time.monotonic(), end, self.ring.log("p0"))
                    time.sleep(.05)
                stranger.stream.close()

    def test_who_may_be_last_waits_no_longer_than_for_a_frame(self):
        """All rounds are done, and one peer was behind when p0 first asked: then the others may end by what p0 told them, and
        do not come back. It waits `timeout` for them, and not `start_wait`."""
        self.ring.values |= {"ring.timeout": "2s", "ring.start_wait": "10m"}
        model = struct.pack("<IIII", 1, 0, 1, 1) + struct.pack(f"<{VALUES}f", *[.5] * VALUES)
        digest = hashlib.sha256(model).digest()
        self.start()
        behind, done = self.hands
        self.hello(1, 1, digest)
        for hand in self.hands:
            hand.take(HELLO, 1)
            hand.take(VIEW, 1)
        self.views(1, 7)
        done.send(MODEL, 1, model)
        self.ring.wait_for("p0", "event=model-fetched")
        # p0 has all rounds now; p1 says that it has not.
        behind.send(HELLO, 2, self.agreement + bytes(4) + self.model)
        done.send(HELLO, 2, self.agreement + struct.pack("<I", 1) + digest)
        for hand in self.hands:
            hand.take(HELLO, 2)
            hand.take(VIEW, 2)
        self.views(2, 7)
        self.assertEqual(behind.take(MODEL, 2), model)
        for hand in self.hands:
            hand.take(HELLO, 3)
            hand.stream.close()
        self.waits_no_longer_than_for_a_frame()

    def test_who_had_the_last_round_with_others_does_not_wait_for_those_who_end(self):
        """All are alike, and the others, who have p0's view, end before theirs has come."""
        self.ring.values |= {"ring.timeout": "2s", "ring.start_wait": "10m"}
        model = struct.pack("<IIII", 1, 0, 1, 1) + struct.pack(f"<{VALUES}f", *[.5] * VALUES)
        digest = hashlib.sha256(model).digest()
        self.start()
        self.hello(1, 1, digest)
        for hand in self.hands:
            hand.take(HELLO, 1)
            hand.take(VIEW, 1)
        self.views(1, 7)
        self.hands[1].send(MODEL, 1, model)
        self.ring.wait_for("p0", "event=model-fetched")
        self.hello(2, 1, digest)
        for hand in self.hands:
            hand.take(HELLO, 2)
            hand.take(VIEW, 2)
            hand.stream.close()
        self.waits_no_longer_than_for_a_frame()

    def waits_no_longer_than_for_a_frame(self):
        end = time.monotonic() + PATIENCE
        while not (waits := re.search('event=waits for="p1, p2" until_s=(\\d+)',
                                      self.ring.log("p0").split("event=model-fetched")[1])):
            self.assertLess(time.monotonic(), end, self.ring.log("p0"))
            time.sleep(.05)
        self.assertLessEqual(int(waits.group(1)), 2, self.ring.log("p0"))
        self.ring.finish("p0")
        self.assertIn("event=end-alone", self.ring.log("p0"))

    def test_an_exchange_is_as_documented(self):
        """p0 adds up what p2 sends; p1 gets it."""
        self.start()
        self.agree()
        after, before = self.hands
        starts = [VALUES * block // 3 for block in range(4)]
        mine = after.take(BLOCK, 1)
        self.assertEqual(struct.unpack("<HH", mine[:4]), (0, 0))
        # Block 2 begins at p2: one value everywhere, which p0 adds its own to.
        before.send(BLOCK, 1, struct.pack("<HH", 0, 2) + self.pieces(starts[2], starts[3], 1000.0))
        sent = after.take(BLOCK, 1)
        self.assertEqual(struct.unpack("<HH", sent[:4]), (1, 2))
        values = self.values_of(sent[4:])
        self.assertEqual(len(values), starts[3] - starts[2])
        self.assertTrue(all(990 < value < 1010 for value in values))
        self.assertTrue(any(value != 1000 for value in values))

    def segments(self):
        """Counts in the layout's order: the large tensor, then all small ones together."""
        return [24 * 32, VALUES - 24 * 32]

    def pieces(self, start, end, value):
        out, offset = b"", 0
        for count in self.segments():
            low, high = max(start, offset), min(end, offset + count)
            if low < high:
                out += float32_block([value] * (high - low))
            offset += count
        return out

    @staticmethod
    def values_of(data):
        values = []
        while data:
            length = shift = 0
            while True:
                byte, data = data[0], data[1:]
                length |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            assert data[0] == 1
            values += struct.unpack(f"<{(length - 1) // 4}f", data[1:length])
            data = data[length:]
        return values

    def refused(self, hand, why):
        self.assertTrue(hand.is_cut())
        self.ring.wait_for("p0", why)

    def test_what_is_out_of_turn_is_refused(self):
        good = self.pieces(VALUES * 2 // 3, VALUES, 1.0)
        for frame, why in (((BLOCK, 1, struct.pack("<HH", 1, 2) + good), "the peer sent a block out of order"),
                           ((BLOCK, 1, struct.pack("<HH", 0, 1) + good), "the peer sent a block out of order"),
                           ((BLOCK, 2, struct.pack("<HH", 0, 2) + good), "the peer sent a frame out of order"),
                           ((MODEL, 1, bytes(4 + 3 * 4 + 4 * VALUES)), "the peer sent a frame out of order"),
                           ((BLOCK, 1, struct.pack("<HH", 0, 2) + good[:-1]), "the peer sent a damaged block"),
                           ((BLOCK, 1, struct.pack("<HH", 0, 2) + good + b"\0"), "the peer sent a damaged block")):
            with self.subTest(why=why):
                self.setUp()
                self.start()
                self.agree()
                self.hands[1].send(*frame)
                self.refused(self.hands[1], why)
                self.ring.__exit__()

    def test_a_model_is_taken_by_its_hash(self):
        """p0 is behind: it takes the model that was told of, from the nearest before it, and no other."""
        model = struct.pack("<IIII", 1, 0, 1, 1) + struct.pack(f"<{VALUES}f", *[.5] * VALUES)
        digest = hashlib.sha256(model).digest()
        for sent, ends in ((bytes([2]) + model[1:], False), (model, True)):
            with self.subTest(ends=ends):
                self.setUp()
                self.start()
                self.hello(1, 1, digest)
                for hand in self.hands:
                    hand.take(HELLO, 1)
                    hand.take(VIEW, 1)
                self.views(1, 7)
                self.hands[1].send(MODEL, 1, sent)
                if not ends:
                    self.refused(self.hands[1], "the peer sent another model than its hello announced")
                    self.assertNotIn("model-fetched", self.ring.log("p0"))
                    continue
                self.ring.wait_for("p0", "event=model-fetched version=1 from=\"p2 ")
                self.hello(2, 1, digest)
                for hand in self.hands:
                    self.assertEqual(hand.take(HELLO, 2), self.agreement + struct.pack("<I", 1) + digest)
                    hand.take(VIEW, 2)
                self.views(2, 7)
                for hand in self.hands:
                    self.assertTrue(hand.is_cut())
                self.ring.finish("p0")
                self.ring.verb("p0", "export", "out.f32")
                self.assertEqual((self.ring.folder / "out.f32").read_bytes(), model[16:])

    def test_a_residual_is_lost_with_the_process_alone(self):
        """The others have a round with p0's values in it, whose end p0 has not seen. Where it had sent all of its
        blocks it knows what its encodings left out, and else says that it does not."""
        model = struct.pack("<IIII", 1, 1, 1, 1) + struct.pack(f"<{VALUES}f", *[.5] * VALUES)
        digest = hashlib.sha256(model).digest()
        starts = [VALUES * block // 3 for block in range(4)]
        for blocks, lost in ((1, True), (2, False)):
            with self.subTest(blocks=blocks):
                self.setUp()
                self.start()
                self.agree()
                for step in range(blocks):
                    self.assertEqual(self.hands[0].take(BLOCK, 1)[:2], struct.pack("<H", step))
                    block = (2 - step) % 3
                    self.hands[1].send(BLOCK, 1, struct.pack("<HH", step, block) +
                                       self.pieces(starts[block], starts[block + 1], 1.0))
                self.assertEqual(self.hands[0].take(BLOCK, 1)[:2], struct.pack("<H", blocks))
                self.hello(2, 1, digest)
                for hand in self.hands:
                    hand.take(HELLO, 2)
                    hand.take(VIEW, 2)
                self.views(2, 7)
                self.hands[1].send(MODEL, 2, model)
                self.ring.wait_for("p0", "event=model-fetched")
                self.assertEqual("event=residual-lost" in self.ring.log("p0"), lost)

    def test_of_two_models_the_one_that_more_hold_goes_on(self):
        self.start()
        model = struct.pack("<IIII", 0, 0, 0, 0) + struct.pack(f"<{VALUES}f", *[.25] * VALUES)
        digest = hashlib.sha256(model).digest()
        self.hello(1, 0, digest)
        for hand in self.hands:
            hand.take(HELLO, 1)
            hand.take(VIEW, 1)
        self.views(1, 7)
        self.hands[1].send(MODEL, 1, model)
        self.ring.wait_for("p0", "event=model-fetched version=0 from=\"p2 ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
