r"""Text from outside (names of models, ids, paths, messages) as it may be shown: escapes for what is not printable.

    >>> plain("mf\x1b[31m"), plain("a\nb"), plain("abc\u202edef")
    ('mf\\x1b[31m', 'a\\nb', 'abc\\u202edef')

Not printable is what Python's repr escapes: control characters (terminal escapes, line breaks), bidirectional
overrides, zero-width characters, lone surrogates, and all spaces but the ordinary one. A terminal then does nothing but
print, and two names that differ look different. Markup is left alone here: in a terminal such text goes through
`rich.text.Text`, on a page through `html.escape`; in a picture mathtext is off.
"""

from collections.abc import Iterable


def plain(text: object) -> str:
    """The text on one line, with escapes for what is not printable; text that has been through here stays as it is."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def plain_lines(text: object) -> str:
    """The same for a text of several lines, such as the message of an error."""
    return "\n".join(map(plain, str(text).split("\n")))


def plain_names(names: Iterable[str]) -> dict[str, str]:
    r"""Each name as it is shown; names that differ are shown differently.

    >>> plain_names(["mf", "a\x1b", r"a\x1b"])
    {'mf': 'mf', 'a\x1b': 'a\\x1b', 'a\\x1b': 'a\\\\x1b'}
    """
    shown = {name: plain(name) for name in names}
    if len(set(shown.values())) < len(shown):  # one holds an escape as text that another holds as a character
        shown = {name: plain(name.replace("\\", "\\\\")) for name in shown}
    return shown
