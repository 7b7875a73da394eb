"""The name of a slice, as the column `slice` of estimates and comparisons has it: `category=toys`, `segment=new`.

`all`, or NULL in tables of earlier versions, is the whole. What has no `=` is a slicing whose value is unknown.
"""

from typing import NamedTuple

ALL = "all"


class SliceName(NamedTuple):
    """A value of a slicing; None: users or items whose value is unknown."""

    slicing: str
    value: str | None


WHOLE = SliceName("", ALL)


def slice_name(text: str | None) -> SliceName:
    """The slice that a row is about.

    >>> slice_name("category=toys"), slice_name("a=b=c").value, slice_name(None) == slice_name("all") == WHOLE
    (SliceName(slicing='category', value='toys'), 'b=c', True)
    """
    if text is None or text == ALL:
        return WHOLE
    slicing, sign, value = text.partition("=")
    return SliceName(slicing, value if sign else None)
