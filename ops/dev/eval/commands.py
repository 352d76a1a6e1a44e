"""`backscroll dev eval`: how much of the evidence is found."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from ops import connection
from ops.console.command import JsonOption
from ops.dev.figures import finish
from schemas.errors import InvalidInput
from schemas.payloads import ContextParameters, ContextQuery, parse_payload

app = typer.Typer(
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


@app.command(epilog="**Example:** backscroll dev eval memories --json")
def memories(as_json: JsonOption = False) -> None:
    """Judge what is learned from the sample of facts: by the rules, and by a model's recorded answers.

    Counts the facts that are learned, those superseded rightly, duplicates, and what is shown to whom for 150
    questions. Ends with 5 if anything is shown where it may not be, or was learned from a bot's words.
    """
    from ops.dev.eval.memories import judge

    finish(lambda say: judge(connection.configured(), say), as_json=as_json)


@app.command(epilog="**Example:** backscroll dev eval locomo ./locomo --json")
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


@app.command(
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


@app.command(
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
