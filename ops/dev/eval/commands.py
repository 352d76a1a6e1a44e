"""`backscroll dev eval` and `backscroll dev fit`: how much of the evidence is found, and by which weights."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from ops import connection
from ops.console.options import JsonOption
from ops.dev.outcome import end, shown
from schemas.errors import InvalidInput
from schemas.payloads import ContextParameters, ContextQuery, parse_payload

app = typer.Typer(
    rich_markup_mode="markdown",
    help="How much of the evidence is found.",
    no_args_is_help=True,
    epilog="**Examples:** backscroll dev eval chats --part held · backscroll dev eval locomo ./locomo",
)
FIT_EXAMPLES = (
    "**Examples:** backscroll dev fit · backscroll dev fit --cache /tmp/candidates.npz --json · "
    "backscroll dev fit --fix date --fix phrase"
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


def read_parameters(given: Sequence[str] | None) -> ContextParameters:
    """Read `name=value` of each. Raises `InvalidInput`."""
    found = {}
    for each in given or ():
        name, _, value = each.partition("=")
        try:
            found[name] = json.loads(value)
        except ValueError as error:
            raise InvalidInput(f"--set {each}: say a number, such as messages=40", field="set") from error
    # their errors name the field
    return parse_payload(ContextQuery, {"chat_id": "eval", "query": "?", "parameters": found}).parameters


@app.command(epilog="**Example:** backscroll dev eval memories --json")
def memories(as_json: JsonOption = False) -> None:
    """Judge what is learned from the sample of facts: by the rules, and by a model's recorded answers.

    Three people talk for four months in two groups and three direct chats. Counts the facts that are learned, those
    superseded rightly, duplicates, and what is shown to whom for 150 questions. Ends with 5 if anything is shown where
    it may not be, or was learned from a bot's words.
    """
    from ops.dev.eval import memories as judging

    with shown() as say:
        found = judging.judge(connection.configured(), say)
    kept = not any(each["leaks"] or each["from_bots"] for each in found.values())
    end(found, judging.tables(found), as_json=as_json, kept=kept)


@app.command(
    epilog="**Examples:** backscroll dev eval locomo ./locomo · "
    "backscroll dev eval locomo ./locomo --only 26 --ablate · "
    "backscroll dev eval locomo ./locomo --plot coverage.png · "
    "BACKSCROLL_EMBEDDING_PROVIDER=deterministic backscroll dev eval locomo ./locomo --shuffle 1 --json"
)
def locomo(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A folder of LoCoMo conversations (*.json), or the one file of the set as published.",
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="This conversation, by its `sample_id` or file's name; repeatable.", show_default=False
        ),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Also turn off one part at a time, to see what each is worth.")
    ] = False,
    shuffle: Annotated[
        int | None,
        typer.Option(metavar="SEED", help="Messages arrive in an order of this seed's.", show_default=False),
    ] = None,
    unsummarized: Annotated[
        bool, typer.Option("--unsummarized", help="Nothing is summarized or embedded yet: only keywords.")
    ] = False,
    merged: Annotated[
        bool, typer.Option("--merged", help="The conversations are one chat, their sessions by time.")
    ] = False,
    summaries: Annotated[
        Literal["extractive", "reference"],
        typer.Option(help="`extractive`, or `reference`: those that come with the set."),
    ] = "extractive",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A PNG of coverage against tokens.", show_default=False),
    ] = None,
    changed: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a fresh database with each conversation through the shipped path and ask its questions.

    Each question is first stored as a message, as bots do, and must not be in the way. No weight is chosen on these.
    Counts, over all questions with evidence: the mean share of the evidence found, the share of questions with
    any and with all of it, among the first sessions and turns; and the share whose text is in the context
    assembled under 800 and 2,000 tokens. Nothing is kept, and no data of yours is touched.
    """
    from ops.dev.eval import drawing, report, run

    if plot is not None:
        drawing.require_drawing()
    options = run.Options(
        only=only or (),
        reference=summaries == "reference",
        plotted=drawing.PLOTTED_BUDGETS if plot is not None else (),
        ablate=ablate,
        shuffle=shuffle,
        unsummarized=unsummarized,
        merged=merged,
        parameters=read_parameters(changed),
    )
    with shown() as say:
        tables = run.locomo(folder, connection.configured(), options, say)
    if plot is not None:
        drawing.draw(tables, plot)
    end(tables, report.locomo_tables(tables), as_json=as_json)


@app.command(
    epilog="**Examples:** backscroll dev eval chats --part held · "
    "backscroll dev eval chats --only held_band_en --only held_band_de · "
    "backscroll dev eval chats --group --messages 3000 --no-plain · "
    "backscroll dev eval chats --profile rag --set daily_decay=1 · backscroll dev eval chats --words-only --json"
)
def chats(
    part: Annotated[
        Literal["held", "fit", "all"],
        typer.Option(help="`held`: only judged on; `fit`: looked at, and fitted on."),
    ] = "all",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This chat; repeatable.", show_default=False)
    ] = None,
    words_only: Annotated[
        bool, typer.Option("--words-only", help="Nothing is embedded: the ranking by words.")
    ] = False,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="Questions in another language than their chat, of some chats.")
    ] = False,
    group: Annotated[
        bool,
        typer.Option(
            "--group", help="Also put the English group chats into one large group; only that is shown."
        ),
    ] = False,
    messages: Annotated[
        int, typer.Option(min=1000, max=200_000, help="With --group: of the group, most of them made up.")
    ] = 30_000,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain/--no-plain", help="With --group: ask plain search as well, which takes minutes."
        ),
    ] = True,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --group: remember embeddings there, for the next run.",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    profile: Annotated[str, typer.Option(metavar="NAME", help="The profile of the contexts.")] = "balanced",
    changed: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a fresh database with chats of many kinds and languages and ask their questions as bots do.

    Each question is first stored as a message of somebody in the chat, and must not be in the way. Counts by chat, kind
    and language: the evidence among the first messages and sessions, the answer's pieces in contexts of 800 and 2,000
    tokens, pieces that lead astray, and how much of what is shown is about the question; beside BM25, vectors and their
    sum over the same messages; and translations beside their original. With `--group` the same questions are asked of
    small chats and of one large group that holds them, within talk that is made up. No data of yours is touched.
    """
    from ops.dev.eval import report, run_chats, run_group

    if group:
        large = run_group.Options(
            messages=messages,
            only=tuple(only or ()),
            words_only=words_only,
            plain=plain,
            vectors=vectors,
            profile=profile,
            parameters=read_parameters(changed),
        )
        with shown() as say:
            found = run_group.evaluate(connection.configured(), large, say)
        end(found, report.group_tables(found), as_json=as_json)
        return
    options = run_chats.Options(
        part=part,
        only=tuple(only or ()),
        foreign=foreign,
        words_only=words_only,
        profile=profile,
        parameters=read_parameters(changed),
    )
    with shown() as say:
        tables = run_chats.chats(connection.configured(), options, say)
    end(tables, report.chats_tables(tables), as_json=as_json)


def fit(
    fix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE",
            help="Keep this weight as it is; repeatable; by default those that seldom fire.",
            show_default=False,
        ),
    ] = None,
    free: Annotated[bool, typer.Option("--free", help="Keep no weight as it is.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This chat; repeatable.", show_default=False)
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep the candidates there, or read them from there.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the ranking's weights on the chats of the part `fit`, and judge them and each feature on the part `held`.

    The candidates of every question are those of the shipped path. Evidence is compared with other candidates in pairs
    (logistic loss, no weight below 0); the strength of L2 is chosen by leaving out one chat at a time. Gathering the
    candidates takes minutes. Nothing is changed: the weights are printed to be pasted.
    """
    from ops.dev.eval import fit as fitting
    from ops.dev.eval import report

    fixed = () if free else tuple(fix or fitting.BY_HAND)
    options = fitting.Options(fixed=fixed, only=tuple(only or ()), cache=cache)
    with shown() as say:
        found = fitting.fitted(connection.configured(), options, say)
    end(found, report.fit_tables(found), as_json=as_json)
