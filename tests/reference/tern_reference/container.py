"""FORMAT.md section 2: one payload for each segment of a model."""

import dataclasses

from . import payload, sparse
from .values import Refused, get_varint, put_varint


def entries(model, data):
    """The payload of each segment."""
    found, at = [], 0
    for _ in model.segments:
        length, at = get_varint(data, at)
        if length > len(data) - at:
            raise Refused("corrupt")
        found.append(data[at : at + length])
        at += length
    if at != len(data):
        raise Refused("corrupt")
    return found


def of_segment(context, model, segment, offset, count):
    """The part of a model's context that a segment sees; velocity is written back by the caller."""
    velocity = context.velocity and context.velocity[offset : offset + count]
    indices = entries(model, context.indices)[segment] if context.indices is not None else None
    return dataclasses.replace(context, segment=segment, velocity=velocity, indices=indices)


def encode(spec, model, values, context=payload.Context()):
    """Returns (container, what is fed back)."""
    out, fed_back, velocity = b"", [], []
    for segment, (offset, count) in enumerate(model.segments):
        own = of_segment(context, model, segment, offset, count)
        codec = spec if model.is_coded(segment) else "float32"
        data, rest = payload.encode(codec, values[offset : offset + count], own)
        out += put_varint(len(data)) + data
        fed_back += rest
        velocity += own.velocity or []
    if context.velocity:
        context.velocity[:] = velocity
    return out, fed_back


def decode(model, data):
    values = []
    for (_, count), entry in zip(model.segments, entries(model, data)):
        values += payload.decode(entry, count)
    return values


# --- Rounds of scalecom (section 3.5) ---


def each(model, data, change):
    """A container of what `change` makes of each payload, of its segment's number and length."""
    out = b""
    for segment, entry in enumerate(entries(model, data)):
        made = change(entry, segment, model.segments[segment][1])
        out += put_varint(len(made)) + made
    return out


def share(model, data, density):
    return each(
        model,
        data,
        lambda entry, segment, n: sparse.share(entry, n, density)
        if model.is_coded(segment)
        else b"\0",
    )


def strip(model, data):
    return each(model, data, lambda entry, _, n: sparse.strip(entry, n))


def join(model, indices, data):
    leaders = entries(model, indices)
    return each(model, data, lambda entry, segment, n: sparse.join(entry, leaders[segment], n))
