"""HTML that cannot be broken out of: every text is escaped unless it was made here."""

import html

from ops.commands.rendering import plain


class Html(str):
    """Markup that was made by `tag`."""

    __slots__ = ()


# Elements that have neither content nor an end.
_VOID = frozenset({"meta"})


def tag(element: str, /, *inside: object, **attributes: object) -> Html:
    """An element; what is inside is escaped unless it is `Html`, lists are joined, None is nothing.

    A trailing underscore keeps an attribute's name from being a word of Python, others are hyphens; an attribute
    that is None is left out.

    >>> tag("b", "1 < 2", class_="x")
    '<b class="x">1 &lt; 2</b>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(plain(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in _VOID:
        return Html(f"<{element}{given}>")
    return Html(f"<{element}{given}>{join(inside)}</{element}>")


def join(parts: object) -> Html:
    """Texts and markup one after the other, as one piece of markup."""
    if parts is None:
        return Html()
    if isinstance(parts, Html):
        return parts
    if isinstance(parts, list | tuple):
        return Html("".join(map(join, parts)))
    return Html(html.escape(plain(str(parts))))
