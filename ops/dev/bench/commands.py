"""`backscroll dev bench`: benchmarks that anyone can rerun, on databases and deployments of their own."""

import importlib
from typing import Annotated

import typer

from ops import connection
from ops.console import rendering
from ops.console.options import JsonOption
from ops.dev.telling import tell

app = typer.Typer(
    rich_markup_mode="markdown",
    help="Measure Backscroll: contexts without a name, else what is named.",
    epilog="**Examples:** backscroll dev bench · backscroll dev bench --messages 100000 --chats 50 · "
    "backscroll dev bench claims --json",
)
# By name the module in this package whose `measure` it is, and its help.
MEASURED = {
    "claims": (
        "claims",
        "Measure a claim with many jobs due, many tenants, and a live message beside an import.",
    ),
    "placing": (
        "placing",
        "Measure how fast messages are placed: many chats, many session keys, two workers.",
    ),
    "erasing": (
        "erasing",
        "Measure editing and forgetting in a chat with many logged questions, and its lock.",
    ),
    "accepting": (
        "accepting",
        "Measure accepting over HTTP beside the bare insert and commit, and beside slow requests.",
    ),
    "embed": (
        "embedding",
        "Measure embedding from rows to rows beside the bare model, and beside a busy process.",
    ),
}


@app.callback(invoke_without_command=True)
def contexts(
    context: typer.Context,
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")] = 10_000,
    chats: Annotated[int, typer.Option(min=1, max=1000, help="Chats that share the messages.")] = 1,
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
    from ops.dev.bench import contexts as measuring

    with rendering.err().status("starting") as status:
        found = measuring.measure(
            connection.configured(),
            messages=messages,
            chats=chats,
            questions=questions,
            progress=status.update,
        )
    kept = all(gate.kept for gate in measuring.gates(found))
    tell(measuring.as_dict(found), measuring.tables(found), as_json=as_json, kept=kept)


def _add(name: str, module: str, told: str) -> None:
    @app.command(name, help=told, epilog=f"**Example:** backscroll dev bench {name} --json")
    def command(as_json: JsonOption = False) -> None:
        from ops.dev.bench import figures

        measuring = importlib.import_module(f"ops.dev.bench.{module}")
        with rendering.err().status("starting") as status:
            found = measuring.measure(status.update)
        kept = all(figure.kept for figure in found)
        tell(figures.as_dict(name, found), [figures.as_table(name, found)], as_json=as_json, kept=kept)


for _name, (_module, _told) in MEASURED.items():
    _add(_name, _module, _told)


def forget(
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")] = 50_000,
    users: Annotated[int, typer.Option(min=2, max=1000, help="Users who wrote the messages.")] = 50,
    chats: Annotated[int, typer.Option(min=1, max=1000, help="Chats that share the messages.")] = 10,
    queries: Annotated[int, typer.Option(min=0, max=100_000, help="Contexts asked for before.")] = 500,
    as_json: JsonOption = False,
) -> None:
    """Measure how long it takes to forget one of many users, verified, on a fresh database of its own.

    Also what must then be summarized and embedded again, and what the query log adds to a context. The messages
    are made up and go through the shipped path.
    """
    from ops.dev.bench import forgetting

    with rendering.err().status("starting") as status:
        found = forgetting.measure(
            connection.configured(),
            messages=messages,
            users=users,
            chats=chats,
            queries=queries,
            progress=status.update,
        )
    tell(found, [forgetting.as_table(found)], as_json=as_json)


def load(
    probes: Annotated[int, typer.Option(min=20, max=10_000, help="Messages of the small tenant.")] = 40,
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="Sent by each way at a time.")] = 2000,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Rounds, of which the best counts.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Measure how a small tenant fares beside a flood, and how fast messages come in while the provider is down.

    Starts a deployment of its own with models that cost nothing. The small tenant says one thing at a time, alone
    and then beside a hundred times as much of a big one; then messages come by the HTTP API and by payload tasks,
    with a model provider that is well, fails, and hangs, and are counted until all are placed.
    """
    from ops.dev.bench import load as loads

    with rendering.err().status("starting") as status:
        found = loads.measure(probes, messages, rounds, status.update)
    tell(found, loads.tables(found), as_json=as_json)
