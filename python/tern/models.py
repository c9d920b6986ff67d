"""Models as safetensors files: a length, a JSON header, the values of each tensor in its own dtype.

A model is a mapping of names to arrays, such as PyTorch's state_dict(), in the order in which the
tensors follow each other. Whole numbers stay whole numbers: the counters of a batch norm
(num_batches_tracked, int64) that are cast to float would be averaged like weights.
"""
from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy

HEADER_MAX = 100_000_000  # bytes, as of other readers of these files
METADATA = "__metadata__"
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}
# numpy has no bfloat16: its 16 bits are the upper half of a float32.
BFLOAT16 = "BF16"
NAMES = {numpy.dtype(code): name for name, code in DTYPES.items()}

Path = str | os.PathLike[str]


class ModelError(ValueError):
    """A model or a file that is none, or holds what neither numpy nor safetensors has a type for."""


# --- Arrays and tensors


def is_tensor(value: Any) -> bool:
    """Whether it is PyTorch's. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def state_dict_of(model: Any) -> Mapping[str, Any]:
    """The model's tensors by name: of a mapping itself, of a torch Module its state_dict(). ModelError"""
    if hasattr(model, "state_dict"):
        model = model.state_dict()
    if not isinstance(model, Mapping):
        raise ModelError(f"a model is a mapping of names to arrays, or has a state_dict(), and not of the type "
                         f"{type(model).__name__}")
    return model


def to_array(value: Any) -> numpy.ndarray[Any, Any]:
    """The value as a numpy array of its own dtype; a bfloat16 tensor becomes float32, which holds all its values."""
    if is_tensor(value):
        value = value.detach().cpu().resolve_conj()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    return numpy.asarray(value)


def to_tensors(model: Mapping[str, numpy.ndarray[Any, Any]]) -> dict[str, Any]:
    """The same model of torch tensors, which own their memory. ImportError without PyTorch"""
    import torch  # pylint: disable=import-outside-toplevel

    return {name: torch.from_numpy(numpy.array(values)) for name, values in model.items()}


def trainable(model: Any) -> dict[str, Any]:
    """The model with float64, which Tern keeps and does not train, as float32. ModelError: it is no model"""
    found = {}
    for name, value in state_dict_of(model).items():
        array = to_array(value)
        found[name] = array.astype(numpy.float32) if array.dtype == numpy.float64 else value
    return found


# --- Writing


def _encode(name: str, value: Any) -> tuple[str, list[int], bytes]:
    """The dtype's name, the shape, and the bytes, row by row and little endian."""
    if is_tensor(value) and str(value.dtype) == "torch.bfloat16":
        array = numpy.ascontiguousarray(to_array(value), dtype="<f4")
        halves = array.view("<u4") >> 16  # exact: the lower half is zero
        return BFLOAT16, list(value.shape), halves.astype("<u2").tobytes()
    array = to_array(value)
    dtype = NAMES.get(array.dtype.newbyteorder("<"))
    if dtype is None:
        raise ModelError(f"the tensor '{name}' is of the type {array.dtype}, which safetensors files do not have")
    # Not ascontiguousarray(), which gives a single number one dimension.
    return dtype, list(array.shape), array.astype(DTYPES[dtype], copy=False).tobytes(order="C")


def _header(entries: dict[str, Any]) -> bytes:
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # values begin at a multiple of 8
    return struct.pack("<Q", len(text)) + text


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """The whole file or the old one: written beside it, then renamed."""
    folder, name = os.path.split(os.path.abspath(path))
    handle, beside = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(parts)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def save_model(model: Any, path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a model as a safetensors file, for `tern-aggregator init --model`.

    model: {name: array of any shape} of numpy arrays or torch tensors, or a torch Module. Each keeps its dtype:
    floats of 16, 32 and 64 bits, bfloat16 (torch), whole numbers of 8 to 64 bits, and booleans. Tern trains what is
    F32, F16 or BF16, and keeps the rest for `export`: float64, numpy's default, too.
    metadata: {text: text} kept beside the tensors.

    ModelError: no mapping, a name that is no text, a dtype that the format has no name for; no file is written.
    """
    entries: dict[str, Any] = {}
    if metadata:
        entries[METADATA] = {str(key): str(value) for key, value in metadata.items()}
    parts, at = [], 0
    for name, value in state_dict_of(model).items():
        if not isinstance(name, str) or name == METADATA:
            raise ModelError(f"a tensor cannot be named {name!r}")
        dtype, shape, data = _encode(name, value)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    _write(path, [_header(entries), *parts])


# --- Reading


def _read_header(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header as it is, and all bytes behind it."""
    with open(path, "rb") as file:
        begin = file.read(8)
        length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else HEADER_MAX + 1
        text = file.read(length) if length <= HEADER_MAX else b""
        data = file.read()
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict) or len(text) != length:
        raise ModelError(f"{os.fspath(path)} is no safetensors file: it does not begin with a length and a JSON header")
    return header, data


def _decode(name: str, entry: Any, data: bytes) -> numpy.ndarray[Any, Any]:
    try:
        dtype, shape, (begin, end) = entry["dtype"], [int(size) for size in entry["shape"]], entry["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise ModelError(f"the tensor '{name}' lacks dtype, shape or data_offsets") from None
    code = "<u2" if dtype == BFLOAT16 else DTYPES.get(dtype)
    if code is None:
        raise ModelError(f"the tensor '{name}' is of the type {dtype}, which numpy does not have")
    count = 1
    for size in shape:
        count *= size
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(data) or \
            end - begin != count * numpy.dtype(code).itemsize:
        raise ModelError(f"the tensor '{name}' of the shape {shape} does not have its bytes in the file")
    values = numpy.frombuffer(data[begin:end], dtype=code).reshape(shape)
    if dtype == BFLOAT16:
        return (values.astype("<u4") << 16).view("<f4").astype(numpy.float32)
    return values.astype(numpy.dtype(code).newbyteorder("="))  # a copy, which may be written to


def load_model(path: Path, framework: str = "numpy") -> dict[str, Any]:
    """Reads a safetensors file: {name: array}, in the file's order, each of its dtype and shape.

    framework: "numpy", or "torch" for tensors. BF16 becomes float32, which holds all its values.

    ModelError: no safetensors file, or one that was cut short; OSError: it cannot be read.
    """
    header, data = _read_header(path)
    entries = {name: entry for name, entry in header.items() if name != METADATA}
    try:
        order = sorted(entries, key=lambda name: entries[name]["data_offsets"][0])
    except (KeyError, TypeError, IndexError):
        order = list(entries)  # _decode() names the one that is wrong
    model = {name: _decode(name, entries[name], data) for name in order}
    if framework == "numpy":
        return model
    if framework == "torch":
        return to_tensors(model)
    raise ValueError(f"framework is 'numpy' or 'torch', not {framework!r}")


def load_metadata(path: Path) -> dict[str, str]:
    """The texts that are kept beside the tensors: `tern-aggregator export` writes version and round. As load_model()"""
    metadata = _read_header(path)[0].get(METADATA, {})
    return {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {}
