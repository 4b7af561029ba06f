"""Text that comes from a server, made fit to be shown: in a terminal, in XML, in a page."""

from __future__ import annotations

import unicodedata

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn"}
"""Control characters, marks that turn the direction of a line, halves of characters: they act instead of being seen."""


def printable(text: str) -> str:
    """Return a text with every character that is not one to look at written as its escape."""
    if text.isprintable():
        return text
    return "".join(_escaped(each) if unicodedata.category(each) in _UNSEEN else each for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
