"""Just enough protobuf to speak protocol v1 by hand: a second implementation,
written from docs/PROTOCOL.md, that shares nothing with the aggregator's."""

import struct


def varint(value):
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if value:
            out.append(byte | 0x80)
        else:
            out.append(byte)
            return bytes(out)


def field(number, value):
    """One field: int -> varint, float -> fixed32, str/bytes -> length-delimited."""
    if isinstance(value, bool) or isinstance(value, int):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(**fields):
    """message(f1=..., f15=...): fields in ascending order, None left out."""
    ordered = sorted((int(name[1:]), value) for name, value in fields.items() if value is not None)
    return b"".join(field(number, value) for number, value in ordered)


def parse(data):
    """{field number: [values]}; fixed32 as raw 4 bytes."""
    out = {}
    position = 0

    def read_varint():
        nonlocal position
        shift = value = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while position < len(data):
        key = read_varint()
        kind = key & 7
        if kind == 0:
            value = read_varint()
        elif kind == 2:
            length = read_varint()
            value = data[position:position + length]
            position += length
        elif kind == 5:
            value = data[position:position + 4]
            position += 4
        elif kind == 1:
            value = data[position:position + 8]
            position += 8
        else:
            raise ValueError(f"wire type {kind}")
        out.setdefault(key >> 3, []).append(value)
    return out


def first(parsed, number, fallback=None):
    return parsed.get(number, [fallback])[0]
