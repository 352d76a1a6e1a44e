"""Shows the steps of something long to somebody who watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ops.commands import rendering


@contextmanager
def steps(text: str, *, shown: bool) -> Iterator[Callable[[str], None]]:
    """What to tell each step; shown on standard error, and only on a terminal."""
    console = rendering.err()
    if not (shown and console.is_terminal):
        yield lambda _: None
        return
    with console.status(text) as status:
        yield lambda step: status.update(f"{text}: {rendering.plain(step)}")
