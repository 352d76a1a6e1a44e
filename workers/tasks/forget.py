"""`backscroll.forget`: go on with a forgetting that is under way."""

from celery import Task, shared_task

from workers import resources


@shared_task(name="backscroll.forget", bind=True)
def forget(self: Task) -> None:
    """Claim a receipt, delete what it is for, and go on while there is more."""
    resources.run(self.app, "forget", resources.current().forgetter)
