"""`backscroll context`: what a bot would put before its model for a question, and why."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ops.commands import asking, context_page, rendering
from ops.commands.answering import LocalOption, answering
from ops.commands.asking import ChatOption, SessionKeyOption
from ops.commands.rendering import JsonOption
from ops.commands.timeline import Span
from ops.connection import DataDirOption, TenantOption
from pipeline.retrieval.profiles import PURPOSES
from schemas.context import Context, Dropped, Explanation
from schemas.errors import InvalidInput
from schemas.payloads import ContextQuery

app = typer.Typer(rich_markup_mode="markdown")

HITS_SHOWN = 20
# The best lines whose reasons a short explanation gives.
LINES_EXPLAINED = 10
# Sessions on the page's time line, the latest.
SPANS = 2000


@app.command(
    epilog="**Examples:** backscroll context 'who fixed the boiler?' --chat telegram:-100420 · "
    "backscroll context 'what did we decide?' --explain · backscroll context 'why?' --html why.html · "
    "backscroll context 'and now?' --budget 800 --json\n\n"
    "**Profiles:**\n\n" + "\n\n".join(f"{name}: {told}" for name, told in PURPOSES.items())
)
def context(
    question: Annotated[
        str, typer.Argument(help="What the bot was asked, or is about to react to.", show_default=False)
    ],
    chat: ChatOption = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="What to look for, default: balanced. The profiles stand below.", show_default=False
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(help="Tokens at most; default: BACKSCROLL_CONTEXT_BUDGET_TOKENS.", show_default=False),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="What will read it, as in gpt-4.1-mini: counts by its tokenizer.", show_default=False
        ),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Who asks, as in telegram:11.", show_default=False)] = None,
    agent: Annotated[str | None, typer.Option(help="Which bot answers.", show_default=False)] = None,
    session_key: SessionKeyOption = None,
    thread: Annotated[
        str | None,
        typer.Option(help="The forum's topic that the bot answers in: its recent talk.", show_default=False),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also why the best lines are there, what was left out, and times."),
    ] = False,
    explain_all: Annotated[
        bool, typer.Option("--explain-all", help="The same of every line, and every hit with its score.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write what --explain-all tells to a page for a browser.", show_default=False
        ),
    ] = None,
    no_history: Annotated[
        bool, typer.Option("--no-history", help="Without the chat's latest messages.")
    ] = False,
    as_json: JsonOption = False,
    local: LocalOption = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Print the context for a question: what the door answers to `POST /v1/context`.

    The running Backscroll is asked: that of **BACKSCROLL_URL** (with **BACKSCROLL_API_KEY**), else the
    `backscroll up` of the data folder. Where the database runs without
    an HTTP API, this process reads it and loads the model itself, which takes some seconds.
    """
    with answering(data_dir, tenant, local=local) as answerer:
        named = answerer.chat(chat)
        query = asking.question(
            named,
            ContextQuery,
            query=question,
            profile=profile,
            budget_tokens=budget,
            model=model,
            user_id=user,
            agent_id=agent,
            session_key=session_key,
            thread=thread,
            explain=explain or explain_all or html is not None,
            include_history=not no_history,
        )
        with rendering.patience("Searching …", shown=not as_json):
            found = answerer.context(query)
        if html is not None and found.explain is not None:
            spans = [Span(**dict(each)) for each in answerer.sessions(named.chat_id, SPANS)]
            title = named.title or named.chat_id
            _write(html, context_page.page(found, found.explain, question, title, named.time_zone, spans))
    if as_json:
        rendering.print_json(found)
        return
    console = rendering.out()
    # in a pipe exactly what a model gets; on a terminal, nothing that would steer it
    print(rendering.plain(found.text) if console.is_terminal else found.text)
    for problem in found.degraded:
        rendering.err().print(f"Degraded: {problem}", style="yellow", markup=False)
    if (explain or explain_all) and found.explain is not None:
        _print_why(console, found, found.explain, named.time_zone, whole=explain_all)


def _write(file: Path, made: str) -> None:
    try:
        file.write_text(made, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"--html {file} cannot be written: {error.strerror}", field="html") from error


def _print_why(console: Console, found: Context, why: Explanation, zone: str, *, whole: bool) -> None:
    """Tables with the reason of the best lines or of all, `whole` every hit, and how much is not shown."""
    console.print(f"\n{'─' * 20} why {'─' * 20}", style="dim")
    shown = [(block.kind, item) for block in found.blocks for item in block.items]
    best = sorted(shown, key=lambda each: (each[1].score is None, -(each[1].score or 0)))[:LINES_EXPLAINED]
    listed = shown if whole else best
    title = "Shown" if len(listed) == len(shown) else f"The best {len(listed)} of {len(shown):,} lines"
    table = rendering.table("block", "score", "when", "text and why", title=title, right=("score",))
    for block, item in listed:
        score = "" if item.score is None else f"{item.score:.3f}"
        text = rendering.with_note(rendering.preview(item.text, asking.SHORT_PREVIEW), item.reason)
        rendering.row(table, block, score, rendering.moment(item.at, zone), text)
    console.print(table)
    if whole:
        _print_hits(console, why, zone)
    if why.dropped:
        counted = Counter((each.kind, asking.reason(each)) for each in why.dropped)
        dropped = rendering.table(
            "how many", "what", "why", title=f"\nNot shown ({len(why.dropped):,})", right=("how many",)
        )
        for (kind, reason), count in counted.most_common(None if whole else LINES_EXPLAINED):
            rendering.row(dropped, count, kind, reason)
        console.print(dropped)
    if not whole:
        console.print("All of it: --explain-all; one by one: --explain --json, or --html FILE", style="dim")
    elif len(why.messages) > HITS_SHOWN or why.dropped:
        console.print("All of them, one by one: --explain --json, or --html FILE", style="dim")
    _print_facts(console, found, why)


def _print_hits(console: Console, why: Explanation, zone: str) -> None:
    reasons: dict[tuple[str, str], Dropped] = {(each.kind, each.id): each for each in why.dropped}
    for title, hits in {"Sessions": why.sessions, "Messages": why.messages, "Memories": why.memories}.items():
        if hits:
            titled = f"\n{title} found ({len(hits):,})"
            console.print(asking.reasons_table(hits[:HITS_SHOWN], reasons, zone, title=titled))


def _print_facts(console: Console, found: Context, why: Explanation) -> None:
    scope = ", the whole scope since narrowing found nothing good enough" if why.fell_back else ""
    tokens = ", ".join(f"{kind} {count:,}" for kind, count in why.tokens_by_block.items())
    times = ", ".join(f"{stage} {spent:.1f}" for stage, spent in why.timings_ms.items())
    facts = rendering.table("", "")
    facts.show_header = False
    rendering.row(
        facts, "tokens", f"{found.used_tokens:,} of {found.budget:,} by {found.counted_by}: {tokens}"
    )
    rendering.row(facts, "vectors", f"{why.vector_search}, {why.rows_compared:,} rows compared{scope}")
    rendering.row(facts, "keywords", why.keyword_search)
    if why.confidence is not None:
        rendering.row(facts, "nearest", asking.nearness(why.confidence))
    if why.brief:
        rendering.row(facts, "leans on", ", ".join(why.brief))
    if why.times:
        rendering.row(facts, "times", "; ".join(why.times))
    rendering.row(facts, "milliseconds", times)
    rendering.row(facts, "profile", why.profile)
    if why.asked_by:
        rendering.row(facts, "asked by", why.asked_by)
    console.print()
    console.print(facts)
