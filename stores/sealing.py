"""Seals blobs with HMAC-SHA256, so that what was changed, moved or written by somebody else is told from our own."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

FORMAT = b"1"
"""The number a blob begins with: `<number> <key id> <position> <signature>`, a line break, and the payload."""

KEY_BYTES_MIN = 32
_POSITION_DIGITS_MAX = 15
"""Every number of so many digits has a float of its own, which is what stores order by."""


class SealBroken(Exception):
    """A blob is not to be believed; the message says why in words that may be shown."""


class Seal:
    """Signs with the first key and believes every key, so that a key is replaced in two deployments.

    A new key goes first while the old one still follows; the old one leaves once nothing that it signed is needed.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("There is no key to sign with.")
        if any(len(key) < KEY_BYTES_MIN for key in keys):
            raise ValueError(f"A key is shorter than {KEY_BYTES_MIN} bytes.")
        self._keys = {_key_id(key): key for key in keys}
        self._key_id = _key_id(keys[0])

    @classmethod
    def from_text(cls, text: str) -> Seal:
        """Read comma-separated keys in hexadecimal digits; raises ValueError, which never tells a key."""
        try:
            keys = [bytes.fromhex(key) for key in text.split(",")]
        except ValueError:
            raise ValueError("A key is not in hexadecimal digits.") from None
        return cls(keys)

    def sealed(self, payload: bytes, *, place: Sequence[str], position: int) -> bytes:
        """Return the blob that `opened` gives back at this very place only."""
        head = b" ".join((FORMAT, self._key_id, str(position).encode()))
        signature = _signature(self._keys[self._key_id], head, place, payload)
        return head + b" " + signature + b"\n" + payload

    def opened(self, blob: bytes, *, place: Sequence[str]) -> bytes:
        """Return the payload of a blob that one of the keys signed for this place; raises SealBroken."""
        (number, key_id, position), signature, payload = _parts(blob)
        key = self._keys.get(key_id)
        if key is None:
            raise SealBroken("it was signed with a key that is not known here")
        expected = _signature(key, b" ".join((number, key_id, position)), place, payload)
        if not hmac.compare_digest(signature, expected):
            raise SealBroken("its signature does not fit: it was changed, or it was made for another place")
        return payload


def position_of(blob: bytes) -> int:
    """Return the position a blob says it has. Not verified: it is for the order alone, and so survives its key."""
    (_, _, position), _, _ = _parts(blob)
    if not position.isdigit() or len(position) > _POSITION_DIGITS_MAX:
        raise SealBroken("it is damaged")
    return int(position)


def _parts(blob: bytes) -> tuple[tuple[bytes, bytes, bytes], bytes, bytes]:
    """Cut a blob into number, key id and position, its signature, and its payload."""
    head, _, payload = blob.partition(b"\n")
    number, *fields = head.split(b" ")
    if number != FORMAT and number.isdigit():
        raise SealBroken("its format is newer than this version can read")
    if number != FORMAT or len(fields) != 3:
        raise SealBroken("it is damaged, or was never signed")
    key_id, position, signature = fields
    return (number, key_id, position), signature, payload


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"key id of " + key).hexdigest()[:16].encode()


def _signature(key: bytes, head: bytes, place: Sequence[str], payload: bytes) -> bytes:
    signature = hmac.new(key, digestmod=hashlib.sha256)
    # The length goes before each part, so that no two places are told by the same bytes.
    for part in (head, *(name.encode(errors="surrogatepass") for name in place), payload):
        signature.update(len(part).to_bytes(8) + part)
    return signature.hexdigest().encode()
