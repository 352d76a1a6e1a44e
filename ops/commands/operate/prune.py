"""`backscroll prune`: delete what has expired, or count it."""

import typer

from ops.console import rendering
from ops.console.command import Call, command
from ops.console.options import DryRunOption

app = typer.Typer(rich_markup_mode="markdown")


@command(app, "backscroll prune --dry-run")
def prune(call: Call, dry_run: DryRunOption = False) -> None:
    """Delete what has expired: messages by age and number (off by default), memories, old pointers.

    Workers do the same every hour. Deletes in small transactions, at most 50,000 rows by each rule in one run.
    Sessions and summaries keep what they say of pruned messages.
    """
    from pipeline.operations import retention as pipeline_prune

    with call.opened(judges=True) as (settings, database):
        keep = pipeline_prune.retention_of(settings)
        counted = pipeline_prune.prune(database, settings.tenant, keep, dry_run=dry_run)
    words = keep.in_words()
    rules = [{"rule": rule, "what": what, "rows": counted.get(rule, 0)} for rule, what in words.items()]
    heading = "would be deleted" if dry_run else "deleted"
    # a rule that is off has no number
    cells = [(rule, what, counted.get(rule, "")) for rule, what in words.items()]
    more = any(count >= pipeline_prune.MAX_ROWS for count in counted.values())
    call.answer(
        {"dry_run": dry_run, "rules": rules, "rows": sum(counted.values())},
        rendering.rows(("rule", "what", heading), cells, right=(heading,)),
        *(["\nThere is more than one run deletes: run it again."] if more else []),
    )
