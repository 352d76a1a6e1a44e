"""`backscroll dev`: evaluations, benchmarks and chaos runs, on databases and deployments of their own."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from ops import connection
from ops.console.command import JsonOption
from ops.dev.figures import Report, benchmark, finish
from schemas.errors import InvalidInput
from schemas.payloads import ContextParameters, ContextQuery, parse_payload

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)


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
            lambda say: Report(found=judge_fit.write_tables(connection.configured(), real, say)),
            as_json=as_json,
        )
        return
    finish(lambda say: Report(found=fitted(connection.configured(), say)), as_json=as_json)


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


evaluations = typer.Typer(
    rich_markup_mode="markdown",
    help="How much of the evidence is found.",
    no_args_is_help=True,
    epilog="**Examples:** backscroll dev eval chats --part held · backscroll dev eval locomo ./locomo",
)


def read_parameters(texts: Sequence[str]) -> ContextParameters:
    """Read parameters from texts `name=value`. Raises `InvalidInput`."""
    parameters = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            parameters[name] = json.loads(value)
        except ValueError as error:
            raise InvalidInput(f"--set {text}: say a number, such as messages=40", field="set") from error
    # their errors name the field
    return parse_payload(ContextQuery, {"chat_id": "eval", "query": "?", "parameters": parameters}).parameters


@evaluations.command(epilog="**Example:** backscroll dev eval memories --json")
def memories(as_json: JsonOption = False) -> None:
    """Judge what is learned from the sample of facts: by the rules, and by a model's recorded answers.

    Counts the facts that are learned, those superseded rightly, duplicates, and what is shown to whom for 150
    questions. Ends with 5 if anything is shown where it may not be, or was learned from a bot's words.
    """
    from ops.dev.eval.memory_eval import judge

    finish(lambda say: judge(connection.configured(), say), as_json=as_json)


@evaluations.command(epilog="**Example:** backscroll dev eval locomo ./locomo --json")
def locomo(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", exists=True, help="Conversations (*.json), or the published file."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Fill a fresh database with LoCoMo's conversations and ask their questions.

    Each question is first stored as a message, as bots do, and must not be in the way. Counts the share of the evidence
    among the first messages and sessions, and in contexts of 800 and 2,000 tokens. No data of yours is touched.
    """
    from ops.dev.eval.asking import Asking, evaluated
    from ops.dev.eval.samples import read_locomo

    asking = Asking(as_bots_do=False, plain=False)
    finish(lambda say: evaluated(connection.configured(), read_locomo(folder), asking, say), as_json=as_json)


@evaluations.command(
    epilog="**Examples:** backscroll dev eval chats --part held · "
    "backscroll dev eval chats --only held_band_en --profile rag --set daily_decay=1 --json",
)
def chats(
    part: Annotated[
        Literal["held", "fit", "all"],
        typer.Option(help="`held`: only judged on; `fit`: looked at, and fitted on."),
    ] = "all",
    only: Annotated[str, typer.Option(metavar="NAME", help="This chat.")] = "",
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Questions in another language than their chat, of some chats.")
    ] = False,
    profile: Annotated[str, typer.Option(metavar="NAME", help="The profile of the contexts.")] = "balanced",
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help=f"A parameter of the contexts, repeatable: {', '.join(ContextParameters.model_fields)}.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a fresh database with chats of many kinds and languages and ask their questions as bots do.

    Each question is first stored as a message of somebody in the chat, and must not be in the way. Counts the evidence
    among the first messages and sessions, the answer's pieces in contexts of 800 and 2,000 tokens, pieces that lead
    astray, and how many of the best messages are of the right session; beside BM25, vectors and their sum over the same
    messages. No data of yours is touched.
    """
    from ops.dev.eval import samples
    from ops.dev.eval.asking import Asking, evaluated

    asking = Asking(profile=profile, parameters=read_parameters(changed or ()))
    chosen = list(samples.chosen(part, only, foreign=foreign))
    finish(lambda say: evaluated(connection.configured(), chosen, asking, say), as_json=as_json)


@evaluations.command(
    epilog="**Examples:** backscroll dev eval relevance --part held · backscroll dev eval relevance --part fit --json"
)
def relevance(
    part: Annotated[
        Literal["held", "fit"], typer.Option(help="`held`: only judged on; `fit`: looked at, and fitted on.")
    ] = "held",
    as_json: JsonOption = False,
) -> None:
    """Ask chats what they know and what nobody there ever said, and see what is shown.

    Counts the tokens of what is found, the answer's pieces in it and how sure of it Backscroll is, by kind of question;
    the memories and passages shown to questions in the same words, in other words, and about something similar; and the
    precision and recall of the search of memories. No data of yours is touched.
    """
    from ops.dev.eval.relevance import evaluated

    finish(lambda say: evaluated(connection.configured(), part, say), as_json=as_json)


app.add_typer(evaluations, name="eval")
app.add_typer(bench, name="bench")
