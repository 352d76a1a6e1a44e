"""`backscroll dev`: evaluations, benchmarks and chaos runs, on databases and deployments of their own."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from ops import connection
from ops.console import rendering
from ops.console.options import JsonOption
from ops.exit_codes import NOT_AS_IT_SHOULD_BE
from schemas.errors import InvalidInput

app = typer.Typer(rich_markup_mode="markdown", no_args_is_help=True)
evaluations = typer.Typer(
    rich_markup_mode="markdown",
    help="How much of the evidence is found.",
    no_args_is_help=True,
    epilog="**Examples:** backscroll dev eval chats --part held · backscroll dev eval locomo ./locomo",
)
app.add_typer(evaluations, name="eval")
bench = typer.Typer(
    rich_markup_mode="markdown",
    help="Measure Backscroll: contexts without a name, else what is named.",
    epilog="**Examples:** backscroll dev bench · backscroll dev bench --messages 100000 --chats 50 · "
    "backscroll dev bench claims --json",
)
app.add_typer(bench, name="bench")
MEASURED = {
    "claims": "Measure a claim with many jobs due, many tenants, and a live message beside an import.",
    "placing": "Measure how fast messages are placed: in many chats, and by two workers.",
    "erasing": "Measure editing and forgetting beside many logged questions, and how long the chat is locked.",
    "accepting": "Measure accepting over HTTP beside the bare insert and commit, and beside slow requests.",
    "embed": "Measure embedding from rows to rows beside the bare model, and beside a busy process.",
    "memories": "Measure learning from 10,000 messages, and contexts beside 90,000 memories.",
    "load": "Measure a small tenant beside a flood, and placing while the model provider is down.",
}
"""By name the help of each module of `ops.dev.bench` with a `measure` of figures."""
LeaseOption = Annotated[
    float, typer.Option(min=2, max=120, help="Seconds of a lease; sweeps come twice in it, or every 5 s.")
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter of the contexts; repeatable.", show_default=False
    ),
]


def _parameters(given: Sequence[str] | None) -> dict[str, float]:
    """Read `name=value` of each. Raises `InvalidInput`."""
    found = {}
    for each in given or ():
        name, _, value = each.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise InvalidInput(f"--set {each}: say a number, such as entity_hops=1", field="set") from error
    return found


@contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """Show what a tool is doing."""
    with rendering.err().status("starting") as status:
        yield status.update


def _end(
    found: Mapping[str, Any],
    tables: Iterable[Table],
    violations: Sequence[str] = (),
    *,
    as_json: bool,
    kept: bool = True,
) -> None:
    """Print the result as JSON or tables, and what is wrong; end with 5 when a promise or a limit is not kept."""
    if as_json:
        rendering.print_json(found)
    else:
        rendering.out().print(*tables)
    for violation in violations:
        rendering.err().print(f"[red]violation[/red] {violation}", highlight=False)
    if violations or not kept:
        raise typer.Exit(NOT_AS_IT_SHOULD_BE)


@app.callback(
    epilog="**Examples:** backscroll dev eval chats · backscroll dev fit · backscroll dev bench · backscroll dev chaos",
)
def dev() -> None:
    """Evaluate and measure Backscroll."""


@bench.callback(invoke_without_command=True)
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

    with _shown() as say:
        found = measuring.measure(
            connection.configured(), messages=messages, chats=chats, questions=questions, progress=say
        )
    kept = all(gate.kept for gate in measuring.gates(found))
    _end(measuring.as_dict(found), measuring.tables(found), as_json=as_json, kept=kept)


def _add(name: str, told: str) -> None:
    @bench.command(name, help=told, epilog=f"**Example:** backscroll dev bench {name} --json")
    def command(as_json: JsonOption = False) -> None:
        from ops.dev.bench import figures

        measuring = importlib.import_module(f"ops.dev.bench.{name}")
        with _shown() as say:
            found = measuring.measure(say)
        kept = all(figure.kept for figure in found)
        _end(figures.as_dict(name, found), [figures.as_table(name, found)], as_json=as_json, kept=kept)


for _name, _told in MEASURED.items():
    _add(_name, _told)


@bench.command(
    name="contexts",
    epilog="**Examples:** backscroll dev bench contexts · backscroll dev bench contexts --messages 100000 --chats 50 "
    "--against ../before --json",
)
def askers(
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")] = 1000,
    chats: Annotated[int, typer.Option(min=1, max=1000, help="Chats that share the messages.")] = 1,
    questions: Annotated[int, typer.Option(min=20, max=10_000, help="Asked after twelve to warm up.")] = 100,
    at_once: Annotated[int, typer.Option("--askers", min=2, max=64, help="Beside one, over HTTP.")] = 8,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Another checkout with its `.venv`, measured in turns.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what a context costs one asker and eight: time, statements and throughput, on a database of its own.

    The talk is in English, with names and dates. One asker calls the pipeline; several are processes that ask the HTTP
    API, which has two. With `--against` another checkout answers the same questions in the same run. Above 10,000
    messages vectors are the means of the model's vectors of their words. Ends with 5 when a limit is not kept.
    """
    from ops.dev.bench import askers as measuring
    from ops.dev.bench import figures

    with _shown() as say:
        found = measuring.measure(
            messages=messages, chats=chats, questions=questions, askers=at_once, against=against, say=say
        )
    kept = all(figure.kept for figure in found)
    name = f"contexts: {messages:,} messages in {chats} chats"
    _end(figures.as_dict(name, found), [figures.as_table(name, found)], as_json=as_json, kept=kept)


@bench.command(epilog="**Example:** backscroll dev bench switching --messages 20000 --json")
def switching(
    messages: Annotated[int, typer.Option(min=100, max=100_000, help="Beside the sample chats.")] = 2000,
    kill: Annotated[
        float, typer.Option(min=5, max=600, help="Seconds that the worker works until it is killed.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Switch the embedding model under load on a deployment of its own, from hashed words to the settings' model.

    Messages come in and questions are asked all the time, and the worker that embeds is killed. Shows the recall on
    the sample chats before, while the space is filled, after the switch and after the rollback. Ends with 5 when a
    question was answered without vectors, or a vector is missing or in the wrong space. No data of yours is touched.
    """
    from ops.dev.bench import figures
    from ops.dev.bench import switching as measuring

    with _shown() as say:
        found = measuring.measure(connection.configured(), messages, kill, say)
    kept = all(figure.kept for figure in found)
    _end(
        figures.as_dict("switching", found),
        [figures.as_table("switching", found)],
        as_json=as_json,
        kept=kept,
    )


@evaluations.command(epilog="**Example:** backscroll dev eval memories --json")
def memories(as_json: JsonOption = False) -> None:
    """Judge what is learned from the sample of facts: by the rules, and by a model's recorded answers.

    Three people talk for four months in two groups and three direct chats. Counts the facts that are learned, those
    superseded rightly, duplicates, and what is shown to whom for 150 questions. Ends with 5 if anything is shown where
    it may not be, or was learned from a bot's words.
    """
    from ops.dev.eval import memories as judging

    with _shown() as say:
        found = judging.judge(connection.configured(), say)
    kept = not any(each["leaks"] or each["from_bots"] for each in found.values())
    _end(found, judging.tables(found), as_json=as_json, kept=kept)


@evaluations.command(
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
    from ops.dev.eval import report, run

    if plot is not None:
        report.require_drawing()
    options = run.Options(
        only=only or (),
        reference=summaries == "reference",
        plotted=report.PLOTTED_BUDGETS if plot is not None else (),
        ablate=ablate,
        shuffle=shuffle,
        unsummarized=unsummarized,
        merged=merged,
        parameters=_parameters(changed),
    )
    with _shown() as say:
        tables = run.locomo(folder, connection.configured(), options, say)
    if plot is not None:
        report.draw(tables, plot)
    _end(tables, report.locomo_tables(tables), as_json=as_json)


@evaluations.command(
    epilog="**Examples:** backscroll dev eval chats --part held · "
    "backscroll dev eval chats --only held_band_en --only held_band_de · "
    "backscroll dev eval chats --group --messages 3000 · "
    "backscroll dev eval chats --set meaning=0.8 · backscroll dev eval chats --words-only --json"
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
    group: Annotated[
        bool,
        typer.Option(
            "--group", help="Also put the English group chats into one large group; only that is shown."
        ),
    ] = False,
    messages: Annotated[
        int, typer.Option(min=1000, max=200_000, help="With --group: of the group, most of them made up.")
    ] = 30_000,
    changed: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a fresh database with chats of many kinds and languages and ask their questions as bots do.

    Each question is first stored as a message of somebody in the chat, and must not be in the way. Counts by chat, kind
    and language: the evidence among the first messages and sessions, the answer's pieces in contexts of 800 and 2,000
    tokens, pieces that lead astray; beside BM25, vectors and their sum over the same messages; and how translations
    compare with their original. With `--group` the same questions are asked of small chats and of one large group that
    they are part of, within talk that is made up. No data of yours is touched.
    """
    from ops.dev.eval import report, run_chats, run_group

    if group:
        large = run_group.Options(
            messages=messages, only=tuple(only or ()), words_only=words_only, parameters=_parameters(changed)
        )
        with _shown() as say:
            found = run_group.evaluate(connection.configured(), large, say)
        _end(found, report.group_tables(found), as_json=as_json)
        return
    options = run_chats.Options(
        part=part, only=tuple(only or ()), words_only=words_only, parameters=_parameters(changed)
    )
    with _shown() as say:
        tables = run_chats.chats(connection.configured(), options, say)
    _end(tables, report.chats_tables(tables), as_json=as_json)


@app.command(
    epilog="**Examples:** backscroll dev fit · backscroll dev fit --cache /tmp/candidates.npz --json · "
    "backscroll dev fit --fix date --fix phrase"
)
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

    fixed = () if free else tuple(fix or fitting.SELDOM)
    options = fitting.Options(fixed=fixed, only=tuple(only or ()), cache=cache)
    with _shown() as say:
        found = fitting.fitted(connection.configured(), options, say)
    _end(found, report.fit_tables(found), as_json=as_json)


@app.command(
    epilog="**Examples:** backscroll dev chaos · backscroll dev chaos --messages 20000 --kills 30 --seed 7 --json"
)
def chaos(
    messages: Annotated[int, typer.Option(min=100, max=1_000_000, help="In all chats together.")] = 2000,
    kills: Annotated[int, typer.Option(min=1, max=1000, help="Half as many other faults come on top.")] = 12,
    seed: Annotated[int, typer.Option(help="The same one makes the same messages and faults.")] = 1,
    lease: LeaseOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Kill and disturb a deployment of its own while messages come in, then check that all of it is right.

    Starts Postgres, Redis, workers, the clock and the HTTP API in a temporary folder; kills them in the middle of
    their work, gives them wrong clocks, empties and fills Redis, freezes Postgres, fills the disk, lets the model
    provider fail; meanwhile messages are edited, deleted and forgotten, and backfills go on. Then every accepted
    message must be stored once, every session match its messages and be summarized, every vector exist, no job be
    due, and every job that a fault interrupted have been taken up again within a lease and two sweeps.
    Ends with 5 when something is not so. No data of yours is touched.
    """
    from ops.dev.chaos import report as reports
    from ops.dev.chaos import run

    with _shown() as say:
        found = run.run(messages, kills, seed, lease, say)
    if found.logs:
        rendering.err().print(f"Logs are in {found.logs}.")
    figures = reports.as_dict(found)
    _end(figures, [reports.as_table("Chaos", figures)], found.violations, as_json=as_json)


@app.command(
    "two-hosts", epilog="**Examples:** backscroll dev two-hosts · backscroll dev two-hosts --cut 60 --json"
)
def two_hosts(
    messages: Annotated[int, typer.Option(min=100, max=100_000, help="By each deployment.")] = 2000,
    cut: Annotated[float, typer.Option(min=1, max=600, help="Seconds without a network.")] = 60,
    lease: LeaseOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Run workers on another host than Postgres, Redis and the HTTP API, and cut the network between the two.

    The hosts are network namespaces of this machine (Linux, as root, with `ip`); nothing else sees them. The same
    messages go through a deployment on one host, on two, and on two that are cut apart under load; each ends with
    the verdict of `backscroll dev chaos`. Ends with 5 when something was lost, doubled or stuck.
    """
    from ops.dev.chaos import apart
    from ops.dev.chaos import report as reports

    with _shown() as say:
        plays = apart.measure(messages, cut, lease, say)
    violations = [f"{play.name}: {violation}" for play in plays for violation in play.violations]
    figures = [asdict(play) for play in plays]
    table = reports.as_table("Workers on another host", *figures)
    _end({"plays": figures}, [table], violations, as_json=as_json)


@app.command(
    epilog="**Example:** BACKSCROLL_SESSION_SUMMARY_MODEL=qwen2.5:7b "
    "BACKSCROLL_OPENAI_BASE_URL=http://127.0.0.1:11434/v1 backscroll dev summaries --sessions 50"
)
def summaries(
    sessions: Annotated[int, typer.Option(min=1, max=1000, help="At most; the samples have some 90.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Summarize sessions of the sample chats by the language model that the settings name.

    Says how many of its answers were used, how many had to be repaired, how many sessions were extracted because
    no answer could be used, and shows ten summaries. No data of yours is touched or sent.
    """
    from ops.dev import summaries as judging

    with _shown() as say:
        judged = judging.judge(connection.configured(), sessions, say)
    _end(asdict(judged), judging.as_tables(judged), as_json=as_json)


@app.command(epilog="**Example:** backscroll dev docs")
def docs() -> None:
    """Write the guide's configuration page from the settings and their docstrings."""
    from ops.dev import docs as pages

    pages.PAGE.write_text(pages.configuration(), encoding="utf-8")
    rendering.out().print(f"Wrote {pages.PAGE}", highlight=False, soft_wrap=True)
