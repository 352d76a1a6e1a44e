"""The hostile caller: what it knows of another tenant, and says, under one theme."""

from dataclasses import dataclass
from typing import Any

from tests.hostile.conftest import Stage
from tests.hostile.victims import VICTIM

SQL = ("' OR tenant_id <> ''; DROP TABLE messages; --", VICTIM, "_%\\\x00\ud800")


@dataclass(frozen=True)
class Theme:
    """One way to be hostile: with the victim's ids, with nothing, or with a text in every place for a text."""

    name: str
    text: str | None = None
    empty: bool = False


THEMES = (
    Theme("ids of others"),
    Theme("nothing", text="", empty=True),
    *(Theme(f"the text {text[:30]!r}", text=text) for text in SQL),
)


class Caller:
    """Whoever makes one call under one theme."""

    def __init__(self, stage: Stage, theme: Theme) -> None:
        self.theme, self.known = theme, stage.known

    def name(self, table: str, column: str) -> Any:
        """A text for what is called by a name: the victim's, or that of the theme."""
        return self.known.one(table, column) if self.theme.text is None else self.theme.text

    def names(self, table: str, column: str) -> list[Any]:
        if self.theme.empty:
            return []
        return self.known.all(table, column) if self.theme.text is None else [self.theme.text]

    def maybe(self, table: str, column: str) -> Any:
        """One that may be left out, which asks for everything or for nothing."""
        return None if self.theme.empty else self.name(table, column)

    def ids(self, table: str) -> list[Any]:
        """The victim's numbers, whatever the texts are."""
        return [] if self.theme.empty else self.known.all(table, "id")

    def id(self, table: str) -> int:
        return int(self.known.one(table, "id"))

    def number(self, table: str) -> str:
        """A number as a path holds it: the victim's, or the text of the theme."""
        return str(self.id(table)) if self.theme.text is None else self.theme.text

    def word(self, valid: str) -> str:
        """What has to be one of a few words: this one, or the text of the theme."""
        return valid if self.theme.text is None else self.theme.text

    def fill(self, value: Any) -> Any:
        """What `calls.json` says is sent: `$` begins what is the victim's, or the theme's."""
        match value:
            case dict():
                return {self.fill(name): self.fill(inner) for name, inner in value.items()}
            case list():
                return [self.fill(each) for each in value]
            case "$chat":
                return self.chat_id
            case str() if value.startswith("$text"):
                _, _, most = value.partition(":")
                return self.text[: int(most) if most else None]
            case str() if value.startswith("$"):
                what, _, of = value[1:].partition(":")
                given = of.split(".") if what in {"name", "names", "maybe"} else [of]
                return getattr(self, what)(*given)
        return value

    @property
    def text(self) -> str:
        return self.word("lighthouse")

    @property
    def chat_id(self) -> str:
        return self.word(f"{VICTIM}:alone")
