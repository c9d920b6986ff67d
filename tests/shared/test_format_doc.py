"""docs/FORMAT.md lists the codecs, keys, modes, purposes and labels that there are: against
`tern-codec codecs --json`, shared/codec/modes.h, shared/util/prng.h and what makes replica ids.

    test_format_doc.py TERN_CODEC SOURCE_DIR
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

WORDS_OF = {"*ternary coder*": "ternary coder", "*index coder*": "index coder"}
IN_WORDS = {"INIT_WEIGHTS": "initial weights", "BACKOFF": "back-off", "TEST": "tests"}


def rows(text, head):
    """The cells of the table whose first line starts with `head`."""
    lines = text[text.index(head):].splitlines()[2:]
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def plain(number):
    return number.replace("2²⁸", str(1 << 28))


class Format(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = (SOURCE / "docs" / "FORMAT.md").read_text(encoding="utf-8")
        out = subprocess.run([PROGRAM, "codecs", "--json"], check=True, stdout=subprocess.PIPE)
        cls.codecs = json.loads(out.stdout)

    def documented(self):
        codecs = {}
        for name, number, key, span, preset, feedback, downloads in rows(self.text, "| codec | id"):
            if name:
                current = codecs[name.strip("`")] = {
                    "id": int(number), "feedback": feedback, "downloads": downloads, "keys": []}
            if key:
                current["keys"].append((key.strip("`"), span, preset.strip("`")))
        return codecs

    def choices(self, span):
        if span in WORDS_OF:
            words = re.search(r"\*%s\* is ([^;.]*)" % WORDS_OF[span], self.text).group(1)
            return set(re.findall(r"`([^`]+)`", words))
        return set(re.findall(r"`([^`]+)`", span))

    def test_every_codec_with_its_id_feedback_and_direction(self):
        documented = self.documented()
        self.assertEqual({codec["name"]: codec["id"] for codec in self.codecs},
                         {name: row["id"] for name, row in documented.items()})
        words = {"error buffer": "yes", "none": "no", "momentum and error buffer": "momentum",
                 "filtered error buffer": "filtered"}
        for codec in self.codecs:
            row = documented[codec["name"]]
            self.assertEqual(words[codec["feedback"]], row["feedback"], codec["name"])
            if not codec["downloads_depend_on_keys"] and row["downloads"] in ("yes", "no"):
                self.assertEqual(codec["downloads"], row["downloads"] == "yes", codec["name"])

    def test_every_key_with_its_range_and_preset(self):
        documented = self.documented()
        for codec in self.codecs:
            keys = documented[codec["name"]]["keys"]
            self.assertEqual([p["key"] for p in codec["parameters"]], [key for key, _, _ in keys])
            for parameter, (_, span, preset) in zip(codec["parameters"], keys):
                where = codec["name"] + ":" + parameter["key"]
                self.assertEqual(parameter["preset"], preset, where)
                if "choices" in parameter:
                    self.assertEqual(set(parameter["choices"]), self.choices(span), where)
                else:
                    self.assertEqual(parameter["range"], plain(span.split(", ", 1)[1]), where)

    def test_the_number_of_every_ternary_coder(self):
        header = (SOURCE / "shared" / "codec" / "codec.h").read_text(encoding="utf-8")
        enum = re.search(r"enum tern_coder \{(.*?)\}", header, re.DOTALL).group(1)
        names = [name.lower().replace("_", "-") for name in re.findall(r"TERN_CODER_(\w+)", enum)]
        sentence = re.search(r"given to another coder: ([^.]*)\.", self.text).group(1)
        documented = [(int(number), name) for number, name in
                      re.findall(r"(\d+) `([^`]+)`", sentence)]
        self.assertEqual(list(enumerate(names[:names.index("auto")])), documented)

    def test_every_mode(self):
        header = (SOURCE / "shared" / "codec" / "list.h").read_text(encoding="utf-8")
        modes = dict((int(byte, 16), name.lower().replace("_", "-")) for name, byte in
                     re.findall(r"TERN_MODE_(\w+) = (0x[0-9a-f]{2})", header))
        documented = {int(byte.strip("`"), 16): name for byte, name, *_ in
                      rows(self.text, "| mode | name")}
        self.assertEqual(modes, documented)

    def test_every_purpose_of_random_numbers(self):
        header = (SOURCE / "shared" / "util" / "prng.h").read_text(encoding="utf-8")
        purposes = {int(number): IN_WORDS.get(name, name.lower()) for name, number in
                    re.findall(r"TERN_PRNG_(\w+) = (\d+),", header)}
        line = re.search(r"^Purposes: (.*)\.$", self.text, re.MULTILINE).group(1)
        documented = dict(purpose.split(" ", 1) for purpose in line.split(", "))
        self.assertEqual(purposes, {int(key): name for key, name in documented.items()})

    def test_every_label_of_a_replica(self):
        labels = set()
        for file in ("shared/wire/names.c", "aggregator/merge/delta.c"):
            labels |= set(re.findall('"(tern replica [^"]*)"', (SOURCE / file).read_text()))
        self.assertGreaterEqual(len(labels), 4)
        self.assertEqual(labels, set(re.findall('["`](tern replica [^"`]*)["`]', self.text)))


if __name__ == "__main__":
    SOURCE, PROGRAM = pathlib.Path(sys.argv.pop()), sys.argv.pop()
    unittest.main()
