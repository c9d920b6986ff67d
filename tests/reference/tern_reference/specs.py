"""FORMAT.md section 4: spec strings. Parameters have the names of their keys."""

from fractions import Fraction

from .values import Refused, f32

MILLION = 1000000


class Number:
    """A decimal number; limits and preset in millionths. Its value is the nearest float32."""

    def __init__(self, least, most, preset):
        self.least, self.most, self.preset = least, most, preset

    def read(self, text):
        """The value in millionths."""
        whole, dot, decimals = text.partition(".")
        good = is_digits(whole, 4) and (not dot or is_digits(decimals, 6))
        if not good or not self.least <= Fraction(text) * MILLION <= self.most:
            raise Refused("bad-argument")
        return int(Fraction(text) * MILLION)

    def write(self, millionths):
        text = "%d.%06d" % divmod(millionths, MILLION)
        return text.rstrip("0").rstrip(".")

    def value(self, millionths):
        return f32(millionths / MILLION)

    def examples(self):
        inside = (self.least + self.most) // 2
        limits = (self.least - 1, self.least, inside, self.most, self.most + 1)
        return [self.write(m) for m in limits if m >= 0] + ["%d.%06d" % divmod(inside, MILLION)]


class Whole:
    def __init__(self, least, most, preset):
        self.least, self.most, self.preset = least, most, preset

    def read(self, text):
        if not is_digits(text, 10) or not self.least <= int(text) <= self.most:
            raise Refused("bad-argument")
        return int(text)

    def write(self, number):
        return str(number)

    def value(self, number):
        return number

    def examples(self):
        inside = (self.least + self.most) // 2
        limits = (self.least - 1, self.least, inside, self.most, self.most + 1)
        return [str(m) for m in limits if m >= 0] + ["0%d" % inside]


class Choice:
    def __init__(self, names, preset):
        self.names, self.preset = names, preset

    def read(self, text):
        if text not in self.names:
            raise Refused("bad-argument")
        return text

    def write(self, name):
        return name

    def value(self, name):
        return name

    def examples(self):
        return list(self.names) + [self.names[0] + "s", self.names[0][:-1]]


def is_digits(text, most):
    return 1 <= len(text) <= most and all(c in "0123456789" for c in text)


def coder(preset):
    names = ("zero-run", "packed", "gaps", "range", "auto", "balanced")
    return Choice(names, preset)


INDEX_CODER = Choice(("auto", "bitmap", "gaps"), "auto")

# In the order of their keys in the canonical form.
CODECS = {
    "float32": {},
    "float16": {},
    "bfloat16": {},
    "int8": {},
    "onebit": {},
    "3lc": {
        "s": Number(MILLION, 2 * MILLION - 1, MILLION),
        "clip": Number(0, 16 * MILLION, 0),
        "coder": coder("zero-run"),
    },
    "density": {
        "p": Number(1, MILLION, 50000),
        "least": Whole(0, MILLION, 0),
        "fit": Choice(("no", "yes"), "no"),
        "coder": coder("auto"),
    },
    "stochastic-ternary": {"coder": coder("zero-run")},
    "qsgd": {
        "levels": Whole(1, 32767, 7),
        "bucket": Whole(32, 2**28, 512),
        "norm": Choice(("max", "l2"), "max"),
        "coder": Choice(("dense", "elias"), "dense"),
    },
    "inceptionn": {
        "bound": Whole(4, 20, 10),
        "variant": Choice(("bounded", "literal"), "bounded"),
    },
    "uniform": {"error": Number(100, 900000, 100000)},
    "sparse": {"p": Number(1, MILLION, 50000), "coder": INDEX_CODER},
    "dgc": {
        "p": Number(1, MILLION, 1000),
        "momentum": Number(0, MILLION - 1, 900000),
        "warmup": Whole(0, 100000, 0),
        "coder": INDEX_CODER,
    },
    "scalecom": {
        "p": Number(1, MILLION, 10000),
        "beta": Number(1, MILLION, MILLION),
        "coder": INDEX_CODER,
    },
}


def read(spec):
    """Returns (name, {key: what its parameter read})."""
    name, colon, text = spec.partition(":")
    if name not in CODECS:
        raise Refused("unknown")
    known, given = CODECS[name], {}
    for item in text.split(",") if colon else ():
        key, equals, value = item.partition("=")
        if not equals or key not in known or key in given:
            raise Refused("bad-argument")
        given[key] = known[key].read(value)
    return name, {key: given.get(key, known[key].preset) for key in known}


def parse(spec):
    """Returns (name, {key: value}), where key `millionths` has the numbers as they were read."""
    name, given = read(spec)
    values = {key: CODECS[name][key].value(v) for key, v in given.items()}
    return name, {**values, "millionths": given}


def canonical(spec):
    """The first parameter always, the others where they are not the preset."""
    name, given = read(spec)
    parts = [
        "%s=%s" % (key, parameter.write(given[key]))
        for i, (key, parameter) in enumerate(CODECS[name].items())
        if i == 0 or given[key] != parameter.preset
    ]
    return name + ":" * bool(parts) + ",".join(parts)
