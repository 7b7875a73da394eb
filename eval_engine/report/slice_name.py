"""The name of a slice, as the column `slice` of estimates and comparisons has it: `category=toys`, `segment=new`.

`all`, or NULL in tables of earlier versions, is the whole. `category=NULL` is what has no category.
"""

from typing import NamedTuple

ALL, NULL = "all", "NULL"


class SliceName(NamedTuple):
    """A value of a slicing; None: users or items whose value is unknown."""

    slicing: str
    value: str | None


WHOLE = SliceName("", ALL)


def slice_name(text: str | None) -> SliceName:
    """The slice that a row is about.

    >>> slice_name("category=toys"), slice_name("a=b=c").value, slice_name("a=NULL").value
    (SliceName(slicing='category', value='toys'), 'b=c', None)
    """
    if text is None or text == ALL:
        return WHOLE
    slicing, _, value = text.partition("=")
    return SliceName(slicing, None if value == NULL else value)
