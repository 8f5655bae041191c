"""Answers to a browser as bytes: a header of plain data, then arrays. JSON would be ten times as long, and slow."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from hardmax._types import AnyArray

KINDS = {"float32": "f4", "int32": "i4", "int16": "i2", "int8": "i1", "uint8": "u1"}  # as the plane reads them


def packed(header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> bytes:
    """Four bytes that count the header, the header as JSON, and the arrays it lists, each at a multiple of four."""
    parts, listed, at = [], [], 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        listed.append({"name": name, "kind": KINDS[array.dtype.name], "shape": array.shape, "at": at})
        parts.append(data + bytes(-len(data) % 4))
        at += len(parts[-1])
    text = json.dumps({**header, "arrays": listed}, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """What `packed` wrote, as the plane reads it."""
    length = int.from_bytes(data[:4], "little")
    header, arrays = json.loads(data[4 : 4 + length]), {}
    for each in header.pop("arrays"):
        flat = np.frombuffer(data, f"<{each['kind']}", int(np.prod(each["shape"])), 4 + length + each["at"])
        arrays[each["name"]] = flat.reshape(each["shape"])
    return header, arrays
