"""`backscroll context`: what a bot would put before its model for a question, and why."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ops.client import quoted
from ops.console import rendering
from ops.console.command import AlsoOption, Call, ChatOption, HydeOption, SessionKeyOption, command, query_in
from schemas.context import PROFILE_PURPOSES, Context, Dropped, Explanation, Hit
from schemas.errors import InvalidInput
from schemas.listing import SessionPage
from schemas.memories import certainty
from schemas.payloads import ContextQuery

app = typer.Typer(rich_markup_mode="markdown")

HITS_SHOWN = 20
# In a short explanation, the best.
LINES_EXPLAINED = 10
# Of a text with its reasons below it.
SHORT_PREVIEW = 100
# On the page's time line, the latest.
SPANS = 2000


@command(
    app,
    "backscroll context 'who fixed the boiler?' --chat telegram:-100420 --explain",
    epilog="**Profiles:**\n\n"
    + "\n\n".join(f"{name}: {purpose}" for name, purpose in PROFILE_PURPOSES.items()),
)
def context(
    call: Call,
    question: Annotated[str, "The question to the bot, or what it is about to react to."],
    chat: ChatOption = None,
    profile: Annotated[str | None, "Named set of parameters, listed below (default: balanced)."] = None,
    budget: Annotated[int | None, "Tokens at most (default: BACKSCROLL_CONTEXT_BUDGET_TOKENS)."] = None,
    model: Annotated[str | None, "Count by this model's tokenizer, as in gpt-4.1-mini."] = None,
    user: Annotated[str | None, "The user who asks, as in telegram:11."] = None,
    agent: Annotated[str | None, "The agent that answers."] = None,
    session_key: SessionKeyOption = None,
    thread: Annotated[str | None, "The forum topic that the bot answers in, for recent messages."] = None,
    as_of: Annotated[
        str | None, "Only what was said and believed before this time, as in 2026-05-31, in the chat's zone."
    ] = None,
    explain: Annotated[bool, "Explain the best lines, what was left out, and times."] = False,
    explain_all: Annotated[bool, "Explain every line, and every hit with its score."] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page for a browser.")] = None,
    no_history: Annotated[bool, "Without the chat's latest messages."] = False,
    also: AlsoOption = None,
    hyde: HydeOption = False,
) -> None:
    """Print the context for a question. The HTTP API answers the same to `POST /v1/context`.

    The running Backscroll is asked: that of **BACKSCROLL_URL** (with **BACKSCROLL_API_KEY**), else the
    `backscroll up` of the data folder.
    """
    api = call.api()
    named = api.find_chat(chat)
    query = query_in(
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
        moments={"as_of": as_of},
        explain=explain or explain_all or html is not None,
        include_history=not no_history,
        queries=also,
        hyde=hyde,
    )
    with rendering.patience("Searching …", shown=not call.as_json):
        context = api.post("/v1/context", query, Context)
    if html is not None and context.explain is not None:
        from workers.api.inspector.why import standalone

        spans = api.get(f"/v1/chats/{quoted(named.chat_id)}/sessions", SessionPage, limit=SPANS).sessions
        _write(html, standalone(context, question, named, spans))
    if call.as_json:
        rendering.print_json(context)
        return
    console = rendering.out()
    # in a pipe exactly what a model gets; on a terminal without what would steer it
    print(rendering.plain(context.text) if console.is_terminal else context.text)
    if judged := certainty(context.evidence, context.evidence_probability):
        rendering.warn(judged, style="dim")
    for problem in context.degraded:
        rendering.warn(f"Degraded: {problem}")
    if (explain or explain_all) and context.explain is not None:
        _print_why(console, context, context.explain, named.time_zone, whole=explain_all)


def _write(file: Path, made: str) -> None:
    try:
        # it holds what people wrote
        with open(file, "w", encoding="utf-8", opener=partial(os.open, mode=0o600)) as page:
            page.write(made)
    except OSError as error:
        raise InvalidInput(f"--html {file} cannot be written: {error.strerror}", field="html") from error


def _print_why(console: Console, context: Context, why: Explanation, zone: str, *, whole: bool) -> None:
    """Print the reasons of the best lines and what is not shown; with `whole`, of all lines and hits."""
    console.print(f"\n{'─' * 20} why {'─' * 20}", style="dim")
    shown = [(block.kind, item) for block in context.blocks for item in block.items]
    best = sorted(shown, key=lambda entry: (entry[1].score is None, -(entry[1].score or 0)))[:LINES_EXPLAINED]
    listed = shown if whole else best
    title = "Shown" if len(listed) == len(shown) else f"The best {len(listed)} of {len(shown):,} lines"
    cells = [
        (
            block,
            "" if item.score is None else f"{item.score:.3f}",
            rendering.moment(item.at, zone),
            rendering.with_note(rendering.preview(item.text, SHORT_PREVIEW), item.reason),
        )
        for block, item in listed
    ]
    headings = ("block", "score", "when", "text and why")
    console.print(rendering.rows(headings, cells, title=title, right=("score",)))
    if whole:
        _print_hits(console, why, zone)
    if why.dropped:
        counted = Counter((dropped.kind, dropped.in_words()) for dropped in why.dropped)
        most_common = counted.most_common(None if whole else LINES_EXPLAINED)
        counts = [(count, kind, reason) for (kind, reason), count in most_common]
        title = f"\nNot shown ({len(why.dropped):,})"
        console.print(rendering.rows(("how many", "what", "why"), counts, title=title, right=("how many",)))
    if not whole:
        console.print("All of it: --explain-all; one by one: --explain --json, or --html FILE", style="dim")
    elif len(why.messages) > HITS_SHOWN or why.dropped:
        console.print("All of them, one by one: --explain --json, or --html FILE", style="dim")
    _print_facts(console, context, why)


def _print_hits(console: Console, why: Explanation, zone: str) -> None:
    reasons: dict[tuple[str, str], Dropped] = {(dropped.kind, dropped.id): dropped for dropped in why.dropped}
    for title, hits in {"Sessions": why.sessions, "Messages": why.messages, "Memories": why.memories}.items():
        if hits:
            titled = f"\n{title} found ({len(hits):,})"
            console.print(reasons_table(hits[:HITS_SHOWN], reasons, zone, title=titled))


def reasons_table(
    hits: Sequence[Hit], dropped: Mapping[tuple[str, str], Dropped], zone: str, *, title: str
) -> Table:
    """Make a table of hits, each with the parts of its score, its rank in each arm, and where it is shown."""
    table = rendering.table("#", "score", "when", "text and why", title=title, right=("#", "score"))
    for hit in hits:
        parts = [f"{name} {value:.2f}" for name, value in hit.components.items() if round(value, 2)]
        arms = [f"{arm} #{place}{hit.by_query(arm)}" for arm, place in hit.arms.items()]
        left_out = dropped.get((hit.kind, hit.id))
        fate = f"shown in {hit.shown_in}" if hit.shown_in else left_out.in_words() if left_out else ""
        made_of = "; ".join(filter(None, (", ".join(parts), ", ".join(arms), f"{hit.kind} {hit.id}", fate)))
        line = f"{hit.speaker}: {hit.preview}" if hit.speaker else hit.preview
        text = rendering.with_note(rendering.preview(line, SHORT_PREVIEW), made_of)
        rendering.row(table, hit.rank, f"{hit.score:.3f}", rendering.moment(hit.at, zone), text)
    return table


def _print_facts(console: Console, context: Context, why: Explanation) -> None:
    scope = ", the whole scope since narrowing found nothing good enough" if why.fell_back else ""
    tokens = ", ".join(f"{kind} {count:,}" for kind, count in why.tokens_by_block.items())
    times = ", ".join(f"{stage} {spent:.1f}" for stage, spent in why.timings_ms.items())
    facts = {
        "tokens": f"{context.used_tokens:,} of {context.budget:,} by {context.counted_by}: {tokens}",
        "vectors": f"{why.vector_search}, {why.rows_compared:,} rows compared{scope}",
        "keywords": why.keyword_search,
        "evidence": "; ".join(
            [*why.evidence_reasons, *([f"never none: {why.unsure}"] if why.unsure else [])]
        ),
        "leans on": ", ".join(why.brief),
        "times": "; ".join(why.times),
        "milliseconds": times,
        "profile": why.profile,
        "asked by": why.asked_by,
    }
    console.print()
    console.print(rendering.facts({name: value for name, value in facts.items() if value}))
