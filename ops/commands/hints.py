"""Hints that a command gives to the workers; without Redis it says once that they come later."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from ops import connection
from schemas.settings import Settings


@contextmanager
def opened_hints(settings: Settings, say: Console) -> "Iterator[Hints]":
    """Hints for the time of a block; the connection is given back at its end."""
    hints = Hints(settings, say)
    try:
        yield hints
    finally:
        hints.close()


class Hints:
    """Tells workers that there is something to do. Nothing depends on it: the sweep finds it too."""

    def __init__(self, settings: Settings, say: Console) -> None:
        self._settings = settings
        self._say = say
        self._asked = False
        self.away = False

    def send(self, kind: str) -> None:
        """Hint at a kind of work."""
        from kombu.exceptions import OperationalError

        from workers import queues

        if self.away:
            return
        if not self._asked:
            self._asked = True
            if self._settings.redis_url is None:
                self._give_up("BACKSCROLL_REDIS_URL is not set")
                return
            self._app = connection.open_queue(self._settings)
            try:
                queues.length(self._app, queues.OF_KIND[kind].full_name)
            except OperationalError as error:
                self._give_up(str(error))
                return
        queues.hint(self._app, kind)

    def close(self) -> None:
        """Give the connection back."""
        if self._asked and self._settings.redis_url is not None:
            self._app.close()

    def _give_up(self, reason: str) -> None:
        self.away = True
        self._say.print(
            f"Redis does not answer ({reason}). Nothing is lost: what is owed stands in Postgres, and the "
            "workers find it when Redis is back and `backscroll beat` runs.",
            markup=False,
            style="yellow",
        )
