"""How vectors are written; make_vectors.py describes the files."""

import itertools
import struct

import tern_reference as ref


def repeated(words):
    """Neighbours that are equal as one word with `*times`."""
    for word, group in itertools.groupby(words):
        times = len(list(group))
        yield word if times == 1 else "%s*%d" % (word, times)


def bits(values):
    return " ".join(
        repeated("%08x" % word for (word,) in struct.iter_unpack("<I", ref.put_f32(values)))
    )


def symbols(q):
    return "".join(repeated("-.+"[d + 1] for d in q))


def line(key, *items):
    return " ".join((key,) + items).rstrip() + "\n"
