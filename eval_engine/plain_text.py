r"""Makes text from outside (model names, ids, paths, messages) safe to show: characters that do not print are escaped.

    >>> plain("mf\x1b[31m"), plain("a\nb"), plain("abc\u202edef")
    ('mf\\x1b[31m', 'a\\nb', 'abc\\u202edef')

The characters that Python's repr escapes: control characters (terminal escapes, line breaks), bidirectional overrides,
zero-width characters, lone surrogates, and all spaces but the ordinary one. A terminal then only prints the text, and
two names that differ look different. Markup is not changed here: for a terminal such text goes through
`rich.text.Text`, for a page through `html.escape`; in a picture mathtext is off.
"""

from collections.abc import Iterable, Sequence


def plain(text: object) -> str:
    """The text on one line, with escapes for characters that do not print; applying it twice changes nothing more."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def plain_lines(text: object) -> str:
    """The same for a text of several lines, such as an error message; line breaks stay."""
    return "\n".join(map(plain, str(text).split("\n")))


def plain_names(names: Iterable[str]) -> dict[str, str]:
    r"""Each name as it is shown; different names are shown differently.

    >>> plain_names(["mf", "a\x1b", r"a\x1b"])
    {'mf': 'mf', 'a\x1b': 'a\\x1b', 'a\\x1b': 'a\\\\x1b'}
    """
    shown = {name: plain(name) for name in names}
    if len(set(shown.values())) < len(shown):  # one name contains as text the escape of another name's character
        shown = {name: plain(name.replace("\\", "\\\\")) for name in shown}
    return shown


def few_names(names: Sequence[str], most: int = 8) -> str:
    """The names as they are shown, or the first of them and how many more there are.

    >>> few_names(["a", "b", "c", "d"], most=3)
    'a and 3 more'
    """
    shown = names if len(names) <= most else names[: most - 2]
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return plain(", ".join(shown)) + more
