"""`backscroll prune`: delete what has expired, or see what that would be."""

from typing import Annotated

import typer

from ops.commands import rendering
from ops.commands.opening import opened
from ops.commands.rendering import JsonOption
from ops.connection import DataDirOption, TenantOption

app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="**Examples:** backscroll prune --dry-run · BACKSCROLL_RETENTION_DAYS=365 backscroll prune"
)
def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; delete nothing.")] = False,
    as_json: JsonOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Delete what has expired: messages by age and number (off by default), memories, old pointers.

    Workers do the same every hour. Deletes in small transactions, and at most 50,000 rows by each rule in one
    run. Sessions and summaries keep what they say of pruned messages.
    """
    from pipeline.operations import retention as pipeline_prune

    with opened(data_dir, tenant) as (settings, database):
        keep = pipeline_prune.retention_of(settings)
        counted = pipeline_prune.prune(database, settings.tenant, keep, dry_run=dry_run)
    words = keep.in_words()
    if as_json:
        rules = [{"rule": rule, "what": what, "rows": counted.get(rule, 0)} for rule, what in words.items()]
        rendering.print_json({"dry_run": dry_run, "rules": rules, "rows": sum(counted.values())})
        return
    rows = "would be deleted" if dry_run else "deleted"
    table = rendering.table("rule", "what", rows, right=(rows,))
    for rule, what in words.items():
        # a rule that is off has no number
        rendering.row(table, rule, what, counted.get(rule, ""))
    rendering.out().print(table)
    if any(count >= pipeline_prune.MAX_ROWS for count in counted.values()):
        print("\nThere is more than one run deletes: run it again.")
