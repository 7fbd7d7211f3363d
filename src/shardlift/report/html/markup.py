"""Build HTML in which every string is escaped."""

import html


class Markup(str):
    """Text that is HTML already; all other strings are escaped by `tag` and `join`."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str) -> Markup:
    """One element.

    >>> tag("b", "<script>", class_="x")
    '<b class="x">&lt;script&gt;</b>'
    >>> tag("meta", charset="utf-8")
    '<meta charset="utf-8"/>'
    """
    inside = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
    )
    if name == "meta":  # an element that is never closed
        return Markup(f"<{name}{inside}/>")
    return Markup(f"<{name}{inside}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Concatenate several pieces."""
    return Markup("".join(map(escape, children)))


def escape(text: str) -> Markup:
    """Escape text, unless it is HTML already."""
    if isinstance(text, Markup):
        return text
    visible = "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return Markup(html.escape(visible, quote=True))
