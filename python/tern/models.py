"""Models as safetensors files: a length, a JSON header, the values of each tensor in its own dtype.

A model is a mapping of names to arrays, such as PyTorch's state_dict(), in the order in which the
tensors follow each other. Whole numbers stay whole numbers: the counters of a batch norm
(num_batches_tracked, int64) that are cast to float would be averaged like weights.
"""
from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import struct
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy

HEADER_MAX = 100_000_000  # bytes, as of other readers of these files
METADATA = "__metadata__"
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}
FRAMEWORKS = ("numpy", "torch")
# numpy has no bfloat16: its 16 bits are the upper half of a float32.
BFLOAT16 = "BF16"
NAMES = {numpy.dtype(code): name for name, code in DTYPES.items()}

Path = str | os.PathLike[str]


class ModelError(ValueError):
    """An invalid model or file, or a dtype that numpy or safetensors does not have."""


# --- Arrays and tensors


def is_tensor(value: Any) -> bool:
    """Whether the value is a PyTorch tensor. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def state_dict_of(model: Any) -> Mapping[str, Any]:
    """Returns the model's tensors by name: a mapping itself, or the state_dict() of a torch Module. ModelError."""
    if hasattr(model, "state_dict"):
        model = model.state_dict()
    if not isinstance(model, Mapping):
        raise ModelError(f"a model is a mapping of names to arrays, or has a state_dict(), and not of the type "
                         f"{type(model).__name__}")
    return model


def to_array(value: Any) -> numpy.ndarray[Any, Any]:
    """Returns the value as a numpy array of its own dtype; bfloat16 becomes float32, without loss."""
    if is_tensor(value):
        value = value.detach().cpu().resolve_conj()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    return numpy.asarray(value)


def to_tensors(model: Mapping[str, numpy.ndarray[Any, Any]]) -> dict[str, Any]:
    """Returns the model as torch tensors that share the arrays' memory. ImportError without PyTorch."""
    import torch  # pylint: disable=import-outside-toplevel

    return {name: torch.from_numpy(values) for name, values in model.items()}


def trainable(model: Any) -> dict[str, Any]:
    """Returns the model with float64 as float32, since Tern does not train float64. ModelError: not a model."""
    found = {}
    for name, value in state_dict_of(model).items():
        array = to_array(value)
        found[name] = array.astype(numpy.float32) if array.dtype == numpy.float64 else value
    return found


# --- Writing


def _dtype(name: str, value: Any) -> str:
    """Returns the safetensors name of the array's dtype. ModelError: there is none."""
    if is_tensor(value) and str(value.dtype) == "torch.bfloat16":
        return BFLOAT16
    dtype = to_array(value).dtype.newbyteorder("<")
    if dtype not in NAMES:
        raise ModelError(f"the tensor '{name}' is of the type {dtype}, which safetensors files do not have")
    return NAMES[dtype]


def _values(value: Any, dtype: str) -> memoryview:
    """Returns the array's bytes, row-major and little endian."""
    array = to_array(value)
    if dtype == BFLOAT16:
        halves = numpy.ascontiguousarray(array, dtype="<f4").view("<u4") >> 16  # exact: the lower half is zero
        array = halves.astype("<u2")
    else:
        array = numpy.ascontiguousarray(array, dtype=DTYPES[dtype])
    return array.reshape(-1).view(numpy.uint8).data


def _entries(model: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the header's entries in the model's order. ModelError."""
    entries: dict[str, Any] = {}
    at = 0
    for name, value in model.items():
        if not isinstance(name, str) or name == METADATA:
            raise ModelError(f"a tensor cannot be named {name!r}")
        dtype, array = _dtype(name, value), to_array(value)
        end = at + array.size * _width(dtype)
        entries[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
    return entries


def _warn_of_counters(entries: Mapping[str, Any]) -> None:
    cast = [name for name, entry in entries.items()
            if name.endswith("num_batches_tracked") and entry["dtype"] in ("F32", "F16", BFLOAT16)]
    if cast:
        warnings.warn(f"the counter '{cast[0]}' is of the type {entries[cast[0]]['dtype']} and would be averaged like a "
                      "weight: keep the integers of state_dict()", stacklevel=3)


def _header(entries: Mapping[str, Any]) -> bytes:
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # values begin at a multiple of 8
    return struct.pack("<Q", len(text)) + text


def _write(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Replaces a file atomically: writes a new one beside it, then renames."""
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
    UserWarning: a counter (num_batches_tracked) was cast to float.
    """
    tensors = state_dict_of(model)
    entries = _entries(tensors)
    _warn_of_counters(entries)
    notes = {METADATA: {str(key): str(value) for key, value in metadata.items()}} if metadata else {}
    values = (_values(tensors[name], entry["dtype"]) for name, entry in entries.items())
    _write(path, itertools.chain([_header(notes | entries)], values))


# --- Reading


def _read_header(path: Path, file: BinaryIO) -> dict[str, Any]:
    """Reads the header and leaves the file's position after it. ModelError."""
    begin = file.read(8)
    length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else HEADER_MAX + 1
    text = file.read(length) if length <= HEADER_MAX else b""
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict) or len(text) != length:
        raise ModelError(f"{os.fspath(path)} is no safetensors file: it does not begin with a length and a JSON header")
    return header


def _place(name: str, entry: Any, size: int) -> tuple[str, list[int], int]:
    """Returns dtype, shape and first byte of a tensor whose bytes lie within the `size` bytes of values. ModelError."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], [int(count) for count in entry["shape"]], entry["data_offsets"]
        whole = isinstance(begin, int) and isinstance(end, int)
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ModelError(f"the tensor '{name}' lacks dtype, shape or data_offsets")
    if dtype != BFLOAT16 and dtype not in DTYPES:
        raise ModelError(f"the tensor '{name}' is of the type {dtype}, which numpy does not have")
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= size or end - begin != math.prod(shape) * _width(dtype):
        raise ModelError(f"the tensor '{name}' of the shape {shape} does not have its bytes in the file")
    return dtype, shape, begin


def _width(dtype: str) -> int:
    """Returns the bytes of a value."""
    return numpy.dtype(DTYPES.get(dtype, "<u2")).itemsize


def _read(file: BinaryIO, dtype: str, shape: list[int]) -> numpy.ndarray[Any, Any]:
    """Reads the tensor at the file's position; its bytes are known to be there."""
    values = numpy.empty(shape, DTYPES.get(dtype, "<u2"))
    file.readinto(values.reshape(-1).view(numpy.uint8).data)  # type: ignore[attr-defined]
    if dtype == BFLOAT16:
        return (values.astype("<u4") << 16).view("<f4").astype(numpy.float32, copy=False)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def load_model(path: Path, framework: str = "numpy") -> dict[str, Any]:
    """Reads a safetensors file: {name: array}, in the file's order, each of its dtype and shape.

    framework: "numpy", or "torch" for tensors. BF16 becomes float32, which holds all its values.

    ModelError: no safetensors file, or one that was cut short; OSError: it cannot be read.
    """
    if framework not in FRAMEWORKS:
        raise ValueError(f"framework is one of {', '.join(FRAMEWORKS)}, not {framework!r}")
    with open(path, "rb") as file:
        header = _read_header(path, file)
        base = file.tell()
        size = os.fstat(file.fileno()).st_size - base
        places = {name: _place(name, entry, size) for name, entry in header.items() if name != METADATA}
        model = {}
        for name in sorted(places, key=lambda name: places[name][2]):
            dtype, shape, begin = places[name]
            file.seek(base + begin)
            model[name] = _read(file, dtype, shape)
    return to_tensors(model) if framework == "torch" else model


def load_metadata(path: Path) -> dict[str, str]:
    """Returns the metadata: `tern-aggregator export` writes version and round. Errors as of load_model()."""
    with open(path, "rb") as file:
        metadata = _read_header(path, file).get(METADATA, {})
    return {str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {}


# --- Columns and classes


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Inputs and outputs of an exported model. A field is None if the file does not have it.

    columns: names of the features, in the model's order; mean, deviation: their scaling; classes: names in class
    order; target, target_mean, target_deviation: of a model that predicts a number.
    
    """
    columns: list[str] | None
    mean: numpy.ndarray[Any, Any] | None
    deviation: numpy.ndarray[Any, Any] | None
    classes: list[str] | None
    target: str | None
    target_mean: float | None
    target_deviation: float | None

    def scale(self, rows: Any) -> numpy.ndarray[Any, Any]:
        """Scales rows [n, columns] from their own units for the model. Without a scaling returns them unchanged."""
        values = numpy.asarray(rows, numpy.float64)
        if self.mean is not None and self.deviation is not None:
            values = (values - self.mean) / self.deviation
        return values.astype(numpy.float32)

    def in_units(self, values: Any) -> numpy.ndarray[Any, Any]:
        """Converts predicted numbers to the units of the target."""
        numbers = numpy.asarray(values, numpy.float64)
        return numbers if self.target_mean is None or self.target_deviation is None else \
            numbers * self.target_deviation + self.target_mean


def load_inputs(path: Path) -> Inputs:
    """Returns columns, scaling and classes of a file that `tern-aggregator export` or `tern-client export` wrote.
    Errors as of load_model()."""
    notes = load_metadata(path)

    def names(key: str) -> list[str] | None:
        try:
            found = json.loads(notes[key]) if key in notes else None
        except ValueError:
            found = []
        if found is not None and (not isinstance(found, list) or not found):
            raise ModelError(f"'{key}' of {os.fspath(path)} is not a JSON array of names")
        return found

    def numbers(key: str) -> numpy.ndarray[Any, Any] | None:
        try:
            return numpy.array([float(text) for text in notes[key].split()]) if key in notes else None
        except ValueError:
            raise ModelError(f"'{key}' of {os.fspath(path)} is not a list of numbers") from None

    def number(key: str) -> float | None:
        found = numbers(key)
        return None if found is None else float(found[0])

    return Inputs(names("columns"), numbers("scaling_mean"), numbers("scaling_deviation"), names("classes"),
                  notes.get("target"), number("target_mean"), number("target_deviation"))
