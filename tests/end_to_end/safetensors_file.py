"""Safetensors files by hand, for tests: written from plain lists, read back as lists."""

import json
import struct

FORMATS = {"F32": "f", "F16": "e", "F64": "d", "I64": "q", "I16": "h", "U8": "B", "BOOL": "?"}


def pack(dtype, values):
    """A dtype without a format takes bytes."""
    if isinstance(values, bytes):
        return values
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def unpack(dtype, data):
    if dtype not in FORMATS and dtype != "BF16":
        return data
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}",
                              data))


def make(tensors, metadata=None):
    """tensors: {name: (dtype, shape, values)}. Returns the bytes of a file."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, values) in tensors.items():
        part = pack(dtype, values)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    return from_header(json.dumps(header).encode(), data)


def from_header(header, data):
    return struct.pack("<Q", len(header)) + header + data


def places(data):
    """Returns {name: first byte of its data in the file}."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    return {name: 8 + length + entry["data_offsets"][0]
            for name, entry in header.items() if name != "__metadata__"}


def parse(data):
    """Returns ({name: (dtype, shape, values)}, metadata), in the order of the header."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], unpack(entry["dtype"], body[begin:end]))
    return tensors, metadata
