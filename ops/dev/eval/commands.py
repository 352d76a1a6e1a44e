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

    Three people talk for four months in two groups and three direct chats. Counts the facts that are learned, those
    superseded rightly, duplicates, and what is shown to whom for 150 questions. Ends with 5 if anything is shown where
    it may not be, or was learned from a bot's words.
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
        typer.Argument(
            metavar="DIR",
            help="A folder of LoCoMo conversations (*.json), or the one file of the set as published.",
        ),
    ],
    only: OnlyOption = None,
    changed: SetOption = None,
    *,
    say: Say,
) -> Outcome:
    """Fill a fresh database with each conversation through the shipped path and ask its questions.

    Each question is first stored as a message, as bots do, and must not be in the way. No weight is chosen on these.
    Counts, over all questions with evidence: the mean share of the evidence among the first messages and sessions, and
    the share whose text is in the context assembled under 800 and 2,000 tokens. No data of yours is touched.
    """
    from ops.dev.eval import locomo as evaluation
    from ops.dev.eval import report

    result = evaluation.evaluate(folder, connection.configured(), only or (), read_parameters(changed), say)
    return Outcome(found=result, tables=report.chats_tables(result))


@command(
    app,
    epilog="**Examples:** backscroll dev eval chats --part held · "
    "backscroll dev eval chats --only held_band_en --only held_band_de · "
    "backscroll dev eval chats --group --messages 3000 · "
    "backscroll dev eval chats --profile rag --set daily_decay=1 --json",
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
    group: Annotated[
        bool, typer.Option("--group", help="Put the English group chats into one large group, too.")
    ] = False,
    messages: Annotated[
        int, typer.Option(min=1000, max=200_000, help="With --group: of the group, most of them made up.")
    ] = 30_000,
    profile: Annotated[str, typer.Option(metavar="NAME", help="The profile of the contexts.")] = "balanced",
    changed: SetOption = None,
    *,
    say: Say,
) -> Outcome:
    """Fill a fresh database with chats of many kinds and languages and ask their questions as bots do.

    Each question is first stored as a message of somebody in the chat, and must not be in the way. Counts by chat, kind
    and language: the evidence among the first messages and sessions, the answer's pieces in contexts of 800 and 2,000
    tokens, pieces that lead astray, and how much of what is shown is about the question; beside BM25, vectors and their
    sum over the same messages. With `--group` the same questions are asked of small chats and of one large group that
    holds them, within talk that is made up. No data of yours is touched.
    """
    from ops.dev.eval import report, run
    from ops.dev.eval.asking import Asking

    asking = Asking(profile=profile, parameters=read_parameters(changed))
    options = run.Options(part=part, only=tuple(only or ()), foreign=foreign, asking=asking)
    if group:
        result = run.in_group(connection.configured(), options, messages, say)
        return Outcome(found=result, tables=report.group_tables(result))
    result = run.chats(connection.configured(), options, say)
    return Outcome(found=result, tables=report.chats_tables(result))


def fit(only: OnlyOption = None, *, say: Say) -> Outcome:
    """Fit the ranking's weights on the chats of the part `fit`, and judge them and each feature on the part `held`.

    The candidates of every question are those of the shipped path. Evidence is compared with other candidates in pairs
    (logistic loss, no weight below 0); the strength of L2 is chosen by leaving out one chat at a time. Gathering the
    candidates takes minutes. Nothing is changed: the weights are printed.
    """
    from ops.dev.eval import fit as fitting
    from ops.dev.eval import report

    result = fitting.fitted(connection.configured(), tuple(only or ()), say)
    return Outcome(found=result, tables=report.fit_tables(result))
