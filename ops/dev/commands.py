"""`backscroll dev`: evaluations, benchmarks and chaos runs, on databases and deployments of their own."""

from typing import Annotated

import typer

from ops.dev.bench import commands as benchmarks
from ops.dev.eval import commands as evaluations
from ops.dev.figures import Outcome, command
from ops.dev.observe import Say

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)
app.add_typer(evaluations.app, name="eval")
app.add_typer(benchmarks.app, name="bench")
command(app, epilog="**Example:** backscroll dev fit --json")(evaluations.fit)


@app.callback(epilog="**Examples:** backscroll dev eval chats · backscroll dev bench · backscroll dev chaos")
def dev() -> None:
    """Evaluate and measure Backscroll."""


@app.command(epilog="**Example:** backscroll dev schema")
def schema() -> None:
    """Write `migrations/schema.txt` and `checksums.txt`, which a new migration changes, from a database of its own."""
    from ops.dev import schema as written

    written.write()
    print(f"Wrote {written.SCHEMA} and {written.CHECKSUMS}")


@app.command(epilog="**Example:** backscroll dev docs")
def docs() -> None:
    """Write the guide's configuration page from the settings and their docstrings."""
    from ops.dev import docs as pages

    pages.PAGE.write_text(pages.configuration(), encoding="utf-8")
    print(f"Wrote {pages.PAGE}")


@command(app, epilog="**Example:** backscroll dev chaos --messages 20000 --kills 30 --seed 7")
def chaos(
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")] = 2000,
    kills: Annotated[int, typer.Option(min=1, max=1000, help="Half as many other faults come on top.")] = 12,
    seed: Annotated[int, typer.Option(help="The same one makes the same messages and faults.")] = 1,
    lease: Annotated[
        float, typer.Option(min=2, max=120, help="Seconds of a lease; sweeps come twice in it, or every 5 s.")
    ] = 10,
    *,
    say: Say,
) -> Outcome:
    """Kill and disturb a deployment of its own while messages come in, then check that all of it is right.

    Kills Postgres, Redis, workers, the clock and the HTTP API in the middle of their work, gives them wrong clocks,
    empties and fills Redis, freezes Postgres, fills the disk, lets the model provider fail; meanwhile messages are
    edited, deleted and forgotten, and backfills go on. Then every accepted message must be stored once, every session
    be summarized, every vector exist, no job be due, and every job that a fault interrupted have been taken up again
    within a lease and two sweeps. Ends with 5 when something is not so. No data of yours is touched.
    """
    from ops.dev.chaos import run

    return run.run(messages, kills, seed, lease, say)


@command(app, epilog="**Examples:** backscroll dev alerts · backscroll dev alerts --json")
def alerts(*, say: Say) -> Outcome:
    """Make everything go wrong that an alert of `ops/monitoring` tells of, and see each fire and clear.

    Needs a real Prometheus on the PATH; `for:` and ranges of the rules are shortened. Takes about ten minutes; ends
    with 5 when an alert did not fire or did not clear.
    """
    from ops.dev.chaos import alerts as provoked

    return provoked.measure(say)
