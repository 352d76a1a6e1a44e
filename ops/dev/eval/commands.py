"""`backscroll dev eval` and `backscroll dev fit`: how much of the evidence is found, and by which weights."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from ops import connection
from ops.dev.figures import Outcome, command
from ops.dev.observe import Say
from schemas.errors import InvalidInput
from schemas.payloads import ContextParameters, ContextQuery, parse_payload

app = typer.Typer(
    rich_markup_mode="markdown",
    help="How much of the evidence is found.",
    no_args_is_help=True,
    epilog="**Examples:** backscroll dev eval chats --part held · backscroll dev eval locomo ./locomo",
)
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help=f"A parameter of the contexts, repeatable: {', '.join(ContextParameters.model_fields)}.",
        show_default=False,
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="This chat or conversation; repeatable.", show_default=False),
]


def read_parameters(texts: Sequence[str] | None) -> ContextParameters:
    """Read parameters from texts `name=value`. Raises `InvalidInput`."""
    parameters = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        try:
            parameters[name] = json.loads(value)
        except ValueError as error:
            raise InvalidInput(f"--set {text}: say a number, such as messages=40", field="set") from error
    # their errors name the field
    return parse_payload(ContextQuery, {"chat_id": "eval", "query": "?", "parameters": parameters}).parameters


@command(app, epilog="**Example:** backscroll dev eval memories --json")
def memories(*, say: Say) -> Outcome:
    """Judge what is learned from the sample of facts: by the rules, and by a model's recorded answers.

    Counts the facts that are learned, those superseded rightly, duplicates, and what is shown to whom for 150
    questions. Ends with 5 if anything is shown where it may not be, or was learned from a bot's words.
    """
    from ops.dev.eval import memories as judging
    from ops.dev.eval import report

    figures = judging.judge(connection.configured(), say)
    wrong = [
        f"{way}: {counts['leaks']} shown where they may not be, {counts['from_bots']} learned from bots"
        for way, counts in figures.items()
        if counts["leaks"] or counts["from_bots"]
    ]
    return Outcome(found=figures, tables=report.memories_tables(figures), violations=wrong)


@command(app, epilog="**Example:** backscroll dev eval locomo ./locomo --only 26 --json")
def locomo(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", exists=True, help="Conversations (*.json), or the published file."),
    ],
    only: OnlyOption = None,
    *,
    say: Say,
) -> Outcome:
    """Fill a fresh database with LoCoMo's conversations and ask their questions.

    Each question is first stored as a message, as bots do, and must not be in the way. Counts the share of the evidence
    among the first messages and sessions, and in contexts of 800 and 2,000 tokens. No data of yours is touched.
    """
    from ops.dev.eval import locomo as published
    from ops.dev.eval import report
    from ops.dev.eval.asking import Asking, evaluated

    asking = Asking(as_bots_do=False, plain=False)
    result = evaluated(connection.configured(), published.conversations(folder, only or ()), asking, say)
    return Outcome(found=result, tables=report.chats_tables(result))


@command(
    app,
    epilog="**Examples:** backscroll dev eval chats --part held · "
    "backscroll dev eval chats --only held_band_en --profile rag --set daily_decay=1 --json",
)
def chats(
    part: Annotated[
        Literal["held", "fit", "all"],
        typer.Option(help="`held`: only judged on; `fit`: looked at, and fitted on."),
    ] = "all",
    only: OnlyOption = None,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Questions in another language than their chat, of some chats.")
    ] = False,
    profile: Annotated[str, typer.Option(metavar="NAME", help="The profile of the contexts.")] = "balanced",
    changed: SetOption = None,
    *,
    say: Say,
) -> Outcome:
    """Fill a fresh database with chats of many kinds and languages and ask their questions as bots do.

    Each question is first stored as a message of somebody in the chat, and must not be in the way. Counts the evidence
    among the first messages and sessions, the answer's pieces in contexts of 800 and 2,000 tokens, pieces that lead
    astray, and how much of what is shown is about the question; beside BM25, vectors and their sum over the same
    messages. No data of yours is touched.
    """
    from ops.dev.eval import report, samples
    from ops.dev.eval.asking import Asking, evaluated

    asking = Asking(profile=profile, parameters=read_parameters(changed))
    chosen = list(samples.chosen(part, only or (), foreign=foreign))
    result = evaluated(connection.configured(), chosen, asking, say)
    return Outcome(found=result, tables=report.chats_tables(result))


def fit(only: OnlyOption = None, *, say: Say) -> Outcome:
    """Fit the ranking's weights on the chats of the part `fit`.

    The candidates of every question are those of the shipped path. Evidence is compared with other candidates in pairs
    (logistic loss, no weight below 0); the strength of L2 is chosen by leaving out one chat at a time. Gathering the
    candidates takes minutes. Nothing is changed: the weights are printed.
    """
    from ops.dev.eval import fit as fitting
    from ops.dev.eval import report

    result = fitting.fitted(connection.configured(), only or (), say)
    return Outcome(found=result, tables=report.fit_tables(result))
