"""`backscroll dev`: evaluations, benchmarks and chaos runs, on databases and deployments of their own."""

from pathlib import Path
from typing import Annotated

import typer

from ops import connection
from ops.console.command import JsonOption
from ops.dev.eval import commands as evaluations
from ops.dev.figures import Outcome, benchmark, finish

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)
app.add_typer(evaluations.app, name="eval")


@app.callback(epilog="**Examples:** backscroll dev eval chats · backscroll dev bench · backscroll dev chaos")
def dev() -> None:
    """Evaluate and measure Backscroll."""


@app.command(epilog="**Example:** backscroll dev schema")
def schema() -> None:
    """Write `migrations/schema.txt` and `checksums.txt`, which a new migration changes, from a database of its own."""
    from ops.dev import generate as written

    written.write_schema()
    print(f"Wrote {written.SCHEMA} and {written.CHECKSUMS}")


@app.command(epilog="**Example:** backscroll dev docs")
def docs() -> None:
    """Write the guide's pages of the settings, from their docstrings, and of the kinds that platforms send."""
    from ops.dev import generate as pages

    pages.PAGE.write_text(pages.configuration(), encoding="utf-8")
    pages.KINDS_PAGE.write_text(pages.kinds_page(), encoding="utf-8")
    print(f"Wrote {pages.PAGE} and {pages.KINDS_PAGE}")


@app.command(epilog="**Examples:** backscroll dev fit --json · backscroll dev fit --judge --real ./talk")
def fit(
    judge: Annotated[bool, typer.Option("--judge", help="Fit the judge of relevance instead.")] = False,
    real: Annotated[
        Path | None,
        typer.Option(metavar="DIR", exists=True, file_okay=False, help="Real talk to fit the judge on, too."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the ranking's weights, or the judge of relevance, on the chats of the part `fit`.

    The candidates of every question are those of the shipped path. Evidence is compared with other candidates in pairs
    (logistic loss, no weight below 0); the strength of L2 is chosen by leaving out one chat at a time. Gathering the
    candidates takes minutes. Nothing is changed: the weights are printed.

    The judge (`--judge`) learns from these questions, from the same without their evidence, and from questions that
    nobody there ever answered, in the configured space and in one of hashed words; and from memories and passages. Its
    tables are written to `pipeline/recall/relevance/fitted.toml`.
    """
    from ops.dev.eval import judge_fit
    from ops.dev.eval.fit import fitted

    if judge:
        finish(
            lambda say: Outcome(found=judge_fit.write_tables(connection.configured(), real, say)),
            as_json=as_json,
        )
        return
    finish(lambda say: Outcome(found=fitted(connection.configured(), say)), as_json=as_json)


@app.command(
    epilog="**Examples:** backscroll dev trace 'Who paid for the boiler?' · backscroll dev trace --json"
)
def trace(
    question: Annotated[
        str, typer.Argument(help="Put to a sample chat.")
    ] = "What did the plumber say about the boiler?",
    profile: Annotated[str, typer.Option(help="Of the context.")] = "balanced",
    as_json: JsonOption = False,
) -> None:
    """Show the way of a question: the functions that it enters once all is warm, in order, by module, with times.

    On a database of its own. Times are in milliseconds and include what a function called; tracing doubles them. With
    `--json` also its SQL as it ran, values included.
    """
    from ops.dev.trace import trace

    finish(lambda say: trace(connection.configured(), question, profile, say), as_json=as_json)


@app.command(epilog="**Example:** backscroll dev chaos --messages 20000 --kills 30 --seed 7")
def chaos(
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")] = 2000,
    kills: Annotated[int, typer.Option(min=1, max=1000, help="Half as many other faults come on top.")] = 12,
    seed: Annotated[int, typer.Option(help="The same one makes the same messages and faults.")] = 1,
    lease: Annotated[
        float, typer.Option(min=2, max=120, help="Seconds of a lease; sweeps come twice in it, or every 5 s.")
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Kill and disturb a deployment of its own while messages come in, then check that all of it is right.

    Kills Postgres, Redis, workers, the clock and the HTTP API in the middle of their work, gives them wrong clocks,
    empties and fills Redis, freezes Postgres, fills the disk, lets the model provider fail; meanwhile messages are
    edited, deleted and forgotten, and backfills go on. Then every accepted message must be stored once, every session
    be summarized, every vector exist, no job be due, and every job that a fault interrupted have been taken up again
    within a lease and two sweeps. Ends with 5 when something is not so. No data of yours is touched.
    """
    from ops.dev.chaos.run import run

    finish(lambda say: run(messages, kills, seed, lease, say), as_json=as_json)


bench = typer.Typer(
    rich_markup_mode="markdown",
    help="Measure Backscroll: search, embedding and memory without a name, else what is named.",
    epilog="**Examples:** backscroll dev bench · backscroll dev bench --messages 100000 --chats 50",
)
MessagesOption = Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")]
ChatsOption = Annotated[int, typer.Option(min=1, max=1000, help="Chats that share the messages.")]


@bench.callback(invoke_without_command=True)
def messages(
    context: typer.Context,
    messages: MessagesOption = 10_000,
    chats: ChatsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure how long contexts and searches take and how much memory messages take, on a database of its own.

    The messages are made up, of words as frequent as in real talk, and go through the shipped path. Above 10,000
    messages vectors are the means of the model's vectors of their words; questions are always embedded by the model.
    Ends with 5 when a limit is not kept; figures hold for one machine at one hour, so compare runs side by side.
    """
    if context.invoked_subcommand is not None:
        return
    from ops.dev.bench.direct import measure_messages

    settings = connection.configured()
    finish(
        lambda say: benchmark("messages", measure_messages(settings, messages, chats, say)), as_json=as_json
    )


@bench.command(epilog="**Example:** backscroll dev bench contexts --messages 100000 --chats 50")
def contexts(messages: MessagesOption = 1000, chats: ChatsOption = 1, as_json: JsonOption = False) -> None:
    """Measure how many contexts one asker and eight get over HTTP, on a database of its own.

    The talk is in English, with names and dates. Askers are processes that ask the HTTP API, which has two. Above
    10,000 messages vectors are the means of the model's vectors of their words. Ends with 5 when a limit is not kept.
    """
    from ops.dev.bench.served import measure_contexts

    settings = connection.configured()
    finish(
        lambda say: benchmark("contexts", measure_contexts(settings, messages, chats, say)), as_json=as_json
    )


@bench.command(epilog="**Example:** backscroll dev bench accepting --json")
def accepting(as_json: JsonOption = False) -> None:
    """Measure accepting over HTTP beside the bare insert and commit, and `/healthz` while the worst is sent."""
    from ops.dev.bench.served import measure_accepting

    finish(lambda say: benchmark("accepting", measure_accepting(say)), as_json=as_json)


@bench.command(epilog="**Example:** backscroll dev bench embed --json")
def embed(as_json: JsonOption = False) -> None:
    """Measure embedding from rows to rows beside the bare model."""
    from ops.dev.bench.direct import measure_embedding

    finish(lambda say: benchmark("embed", measure_embedding(connection.configured(), say)), as_json=as_json)


app.add_typer(bench, name="bench")
