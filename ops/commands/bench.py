"""`backscroll dev bench`: benchmarks that anyone can rerun, on databases and deployments of their own."""

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from ops import connection
from ops.bench import cases
from ops.bench.cases import Case, Say
from ops.commands import rendering
from ops.commands.rendering import JsonOption
from ops.exit_codes import NOT_AS_IT_SHOULD_BE

app = typer.Typer(
    rich_markup_mode="markdown",
    help="Measure Backscroll: contexts without a name, else what is named.",
    epilog="**Examples:** backscroll dev bench · backscroll dev bench --messages 100000 --chats 50 · "
    "backscroll dev bench claims --json",
)


@app.callback(invoke_without_command=True)
def contexts(
    context: typer.Context,
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")] = 10_000,
    chats: Annotated[int, typer.Option(min=1, max=1000, help="That share them.")] = 1,
    questions: Annotated[int, typer.Option(min=20, max=10_000, help="Asked after ten to warm up.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Measure how long contexts and searches take and how much memory messages take, on a database of its own.

    The messages are made up (words as frequent as in real talk, sessions of about twenty messages) and go
    through the shipped path. Up to 10,000 are embedded by the model; the vectors of more are the means of the
    model's vectors of their words, and the output says so. Questions are always embedded by the model. Ends
    with 5 when a limit is not kept; figures hold for one machine at one hour, so compare runs side by side.
    """
    if context.invoked_subcommand is not None:
        return
    from ops.bench import contexts as measuring
    from ops.bench import report as reports

    with rendering.err().status("starting") as status:
        found = measuring.measure(
            connection.configured(),
            messages=messages,
            chats=chats,
            questions=questions,
            progress=status.update,
        )
    if as_json:
        rendering.print_json(measuring.as_dict(found))
    else:
        rendering.out().print(*reports.tables(found))
    if not all(gate.kept for gate in found.gates()):
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


def _run(name: str, measure: Callable[[Say], Sequence[Case]], *, as_json: bool) -> None:
    """Measure, tell, and end with 5 when a limit is not kept."""
    with rendering.err().status("starting") as status:
        found = measure(status.update)
    if as_json:
        rendering.print_json(cases.as_dict(name, found))
    else:
        rendering.out().print(cases.as_table(name, found))
    if not all(case.kept for case in found):
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


@app.command(epilog="**Example:** backscroll dev bench claims --json")
def claims(as_json: JsonOption = False) -> None:
    """Measure a claim with many rows owed, many tenants, and a live message beside an import."""
    from ops.bench import claims as measuring

    _run("claims", measuring.measure, as_json=as_json)


@app.command(epilog="**Example:** backscroll dev bench placing --json")
def placing(as_json: JsonOption = False) -> None:
    """Measure how fast messages are placed: many chats, many session keys, two workers beside one."""
    from ops.bench import placing as measuring

    _run("placing", measuring.measure, as_json=as_json)


@app.command(epilog="**Example:** backscroll dev bench erasing --json")
def erasing(as_json: JsonOption = False) -> None:
    """Measure editing and forgetting in a chat with many logged questions, and how long the chat is locked."""
    from ops.bench import erasing as measuring

    _run("erasing", measuring.measure, as_json=as_json)


@app.command(epilog="**Example:** backscroll dev bench accepting --json")
def accepting(as_json: JsonOption = False) -> None:
    """Measure accepting over HTTP beside the bare insert and commit, and beside what is slow."""
    from ops.bench import accepting as measuring

    _run("accepting", measuring.measure, as_json=as_json)


@app.command(epilog="**Example:** backscroll dev bench embed --json")
def embed(as_json: JsonOption = False) -> None:
    """Measure embedding from rows to rows beside the bare model, alone and beside a busy process."""
    from ops.bench import embedding as measuring

    _run("embed", measuring.measure, as_json=as_json)
