"""What a page leaves out to stay small, and the SQL that shows it."""

from html import escape


def left_out_html(what: str, query: str) -> str:
    """A note: "1,730 more pairs of models are left out. They are rows of: SELECT ..."."""
    return f'<p class="note">{escape(what)}: left out here, shown by <code>{escape(query)}</code>.</p>'
