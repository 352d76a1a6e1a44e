"""`backscroll.embed`: embed what is owed."""

from celery import Task, shared_task

from workers import resources


@shared_task(name="backscroll.embed", bind=True)
def embed(self: Task) -> None:
    """Claim a batch of messages, sessions and memories and write their vectors."""
    held = resources.current()
    # Without pgvector there is nowhere to write: vectors stay owed until `db upgrade` finds the extension.
    with resources.waiting():
        if held.database.has_vectors():
            resources.run(self.app, "embed", held.embed)
