"""Plain data as letters that a link can hold."""

import base64
import json
import zlib
from typing import Any

from hardmax._errors import InputError

LONGEST_LINK = 6000  # characters: what browsers and mail programs carry
MOST_UNPACKED = 4_000_000  # bytes that a link may unpack to


def to_link(data: Any) -> str:
    """The letters; none where there would be too many of them."""
    packed = zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)
    link = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    return link if len(link) <= LONGEST_LINK else ""


def from_link(link: str) -> Any:
    """The data that `to_link` was given."""
    try:
        if len(link) > 2 * LONGEST_LINK:
            raise ValueError
        packed = base64.urlsafe_b64decode(link + "=" * (-len(link) % 4))
        return json.loads(zlib.decompressobj().decompress(packed, MOST_UNPACKED))
    except (ValueError, zlib.error, RecursionError):
        raise InputError("This link does not hold what it should: it was cut or changed. Ask for it again.") from None
