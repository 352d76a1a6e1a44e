"""`backscroll dev bench`: measurements, each on a database or a deployment of its own."""

from typing import Annotated

import typer

from ops import connection
from ops.console.options import JsonOption
from ops.dev.figures import Outcome, benchmark, command, end, shown
from ops.dev.observe import Say

app = typer.Typer(
    rich_markup_mode="markdown",
    help="Measure Backscroll: search, embedding and memory without a name, else what is named.",
    epilog="**Examples:** backscroll dev bench · backscroll dev bench --messages 100000 --chats 50",
)
MessagesOption = Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")]
ChatsOption = Annotated[int, typer.Option(min=1, max=1000, help="Chats that share the messages.")]


@app.callback(invoke_without_command=True)
def messages(
    context: typer.Context,
    messages: MessagesOption = 10_000,
    chats: ChatsOption = 1,
    questions: Annotated[int, typer.Option(min=20, max=10_000, help="Asked after some to warm up.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Measure how long contexts and searches take and how much memory messages take, on a database of its own.

    The messages are made up, of words as frequent as in real talk, and go through the shipped path. Above 10,000
    messages vectors are the means of the model's vectors of their words; questions are always embedded by the model.
    Ends with 5 when a limit is not kept; figures hold for one machine at one hour, so compare runs side by side.
    """
    if context.invoked_subcommand is not None:
        return
    from ops.dev.bench import messages as measuring

    sizes = {"messages": messages, "chats": chats, "questions": questions}
    with shown() as say:
        outcome = benchmark("messages", measuring.measure(connection.configured(), **sizes, say=say))
    end(outcome, as_json=as_json)


@command(app, epilog="**Example:** backscroll dev bench contexts --messages 100000 --chats 50")
def contexts(
    messages: MessagesOption = 1000,
    chats: ChatsOption = 1,
    askers: Annotated[int, typer.Option(min=2, max=64, help="Beside one.")] = 8,
    *,
    say: Say,
) -> Outcome:
    """Measure how many contexts one asker and eight get over HTTP, on a database of its own.

    The talk is in English, with names and dates. Askers are processes that ask the HTTP API, which has two. Above
    10,000 messages vectors are the means of the model's vectors of their words. Ends with 5 when a limit is not kept.
    """
    from ops.dev.bench import contexts as measuring

    sizes = {"messages": messages, "chats": chats, "askers": askers}
    return benchmark("contexts", measuring.measure(connection.configured(), **sizes, say=say))


@command(app, epilog="**Example:** backscroll dev bench accepting --json")
def accepting(*, say: Say) -> Outcome:
    """Measure accepting over HTTP beside the bare insert and commit, and `/healthz` while the worst is sent."""
    from ops.dev.bench import accepting as measuring

    return benchmark("accepting", measuring.measure(say))


@command(app, epilog="**Example:** backscroll dev bench embed --json")
def embed(*, say: Say) -> Outcome:
    """Measure embedding from rows to rows beside the bare model."""
    from ops.dev.bench import embed as measuring

    return benchmark("embed", measuring.measure(connection.configured(), say))
