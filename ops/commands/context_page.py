"""One page of HTML that shows how a context came about: nothing is loaded, nothing runs, all text is escaped."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ops.commands import asking, rendering
from ops.commands.html import Html, join, tag
from schemas.context import Context, Dropped, Explanation, Hit

# Even a browser that finds markup where there is none loads and runs nothing of it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_COLOURS = 10
_STYLE = """
:root { color-scheme: light dark; --back: #fff; --front: #1c2024; --soft: #667; --line: #d9dde3; --well: #f4f6f8;
  --pick: #0b6bcb; --c0: #3b82f6; --c1: #f59e0b; --c2: #10b981; --c3: #ef4444; --c4: #8b5cf6; --c5: #06b6d4;
  --c6: #84cc16; --c7: #ec4899; --c8: #a16207; --c9: #64748b }
@media (prefers-color-scheme: dark) { :root { --back: #15181c; --front: #e6e8eb; --soft: #9aa3ad; --line: #333a42;
  --well: #1e2329; --pick: #6cb6ff } }
body { background: var(--back); color: var(--front); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { border-bottom: 1px solid var(--line); font-size: 1.1rem; margin-top: 2.5rem }
small, .soft { color: var(--soft) } .warn { color: #c2410c } .num { text-align: right; white-space: nowrap }
table { border-collapse: collapse; width: 100% } th { color: var(--soft); font-weight: normal; text-align: left }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; vertical-align: top }
td { overflow-wrap: anywhere }
pre { background: var(--well); overflow-wrap: anywhere; padding: 1rem; white-space: pre-wrap }
tr.out { opacity: .65 } .wide { overflow-x: auto } .nowrap { white-space: nowrap }
.bar { background: var(--well); display: flex; height: .9rem; min-width: 9rem; width: 100% }
.bar i { display: block } .less { outline: 1px dashed var(--c3); outline-offset: -1px }
.key i { display: inline-block; height: .7rem; margin: 0 .3rem 0 .9rem; width: .7rem }
svg { background: var(--well); display: block; width: 100% } svg rect { fill: var(--soft); opacity: .45 }
svg rect.found { fill: var(--c1); opacity: .9 } svg rect.picked { fill: var(--pick); opacity: 1 }
summary { cursor: pointer }
""" + "".join(f".c{n} {{ background: var(--c{n}) }}\n" for n in range(_COLOURS))


@dataclass(frozen=True, kw_only=True)
class Span:
    """A session of the chat on the time line."""

    id: int
    started_at: datetime
    ended_at: datetime
    message_count: int


def page(
    context: Context, why: Explanation, question: str, chat: str, zone: str, sessions: Sequence[Span]
) -> str:
    """The page, for times in this zone; `sessions` are the chat's, or its latest."""
    colours = {name: f"c{n % _COLOURS}" for n, name in enumerate(_components(why))}
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"Context: {rendering.preview(question, 80)}"),
        tag("style", Html(_STYLE)),
    )
    body = tag(
        "body",
        tag("h1", question),
        _facts(context, why, chat),
        _section("Tokens by block", _tokens(context)),
        _section("Time by stage", _times(why)),
        _section("Sessions over time", _timeline(context, why, zone, sessions)),
        _section("Shown", _shown(context, zone)),
        _section("Sessions found", _hits(why, why.sessions, colours, zone)),
        _section("Messages found", _hits(why, why.messages, colours, zone)),
        _section("Memories found", _hits(why, why.memories, colours, zone)),
        _section("Not shown", _not_shown(why.dropped)),
        _section("The context itself", tag("pre", context.text)),
        _section("Parameters", _parameters(why)),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _section(title: str, inside: Html | None) -> Html | None:
    return tag("section", tag("h2", title), inside) if inside else None


def _facts(context: Context, why: Explanation, chat: str) -> Html:
    told = [
        f"{chat}, profile {why.profile}, {context.used_tokens:,} of {context.budget:,} tokens, keywords: ",
        f"{why.keyword_search}, vectors: {why.vector_search}, {why.rows_compared:,} rows compared",
        ", the whole scope since narrowing found nothing good enough" if why.fell_back else "",
        f"; {asking.nearness(why.confidence)}" if why.confidence is not None else "",
    ]
    problems = [tag("p", f"Degraded: {each}", class_="warn") for each in context.degraded]
    return join([tag("p", told, class_="soft"), problems])


def _components(why: Explanation) -> list[str]:
    hits = (*why.messages, *why.sessions, *why.memories)
    return list(dict.fromkeys(name for hit in hits for name in hit.components))


def _table(headings: Iterable[str], rows: Iterable[Html]) -> Html:
    head = tag("tr", [tag("th", each) for each in headings])
    return tag("div", tag("table", tag("thead", head), tag("tbody", list(rows))), class_="wide")


def _bar(parts: Iterable[tuple[str, float, str]], whole: float) -> Html:
    """Parts `(name, value, class)` side by side, of a bar as long as `whole`; what takes away is dashed."""
    pieces = []
    for name, value, colour in parts:
        width = 100 * abs(value) / whole if whole > 0 else 0
        if width >= 0.1:
            sign = "less" if value < 0 else ""
            style = f"width:{width:.1f}%"
            pieces.append(
                tag("i", class_=f"{colour} {sign}".strip(), style=style, title=f"{name} {value:.3f}")
            )
    return tag("div", pieces, class_="bar")


def _tokens(context: Context) -> Html:
    most = max([block.tokens for block in context.blocks], default=1)
    rows = [
        tag(
            "tr",
            tag("td", block.kind),
            tag("td", f"{block.tokens:,}", class_="num"),
            tag("td", f"{block.chars:,}", class_="num"),
            tag("td", len(block.items) or "", class_="num"),
            tag("td", _bar([(block.kind, block.tokens, "c0")], most)),
        )
        for block in context.blocks
    ]
    return _table(("block", "tokens", "characters", "items", ""), rows)


def _times(why: Explanation) -> Html:
    most = max(why.timings_ms.values(), default=1)
    rows = [
        tag(
            "tr",
            tag("td", stage),
            tag("td", f"{spent:.1f} ms", class_="num"),
            tag("td", _bar([(stage, spent, "c2")], most)),
        )
        for stage, spent in why.timings_ms.items()
    ]
    return _table(("stage", "time", ""), rows)


def _timeline(context: Context, why: Explanation, zone: str, sessions: Sequence[Span]) -> Html | None:
    """Every session at its time, as high as it is long; those found and those shown stand out."""
    if not sessions:
        return None
    spans = sorted(sessions, key=lambda span: span.started_at)
    first, last = spans[0].started_at, max(span.ended_at for span in spans)
    whole = max((last - first).total_seconds(), 1.0)
    most = max(span.message_count for span in spans) or 1
    found = {hit.session_id for hit in (*why.sessions, *why.messages[:20])}
    picked = {hit.session_id for hit in (*why.sessions, *why.messages) if hit.shown_in}
    bars = []
    for span in spans:
        height = 4 + 76 * span.message_count / most
        kind = "picked" if span.id in picked else "found" if span.id in found else None
        told = f"session {span.id}, {rendering.moment(span.started_at, zone)}, {span.message_count} messages"
        bars.append(
            tag(
                "rect",
                tag("title", f"{told}: {'shown' if kind == 'picked' else kind or 'not among the best'}"),
                x=f"{990 * (span.started_at - first).total_seconds() / whole:.1f}",
                y=f"{82 - height:.1f}",
                width=f"{max(3, 990 * (span.ended_at - span.started_at).total_seconds() / whole):.1f}",
                height=f"{height:.1f}",
                class_=kind,
            )
        )
    counted = Counter(item.kind for block in context.blocks for item in block.items)
    shown = ", ".join(f"{count} {kind}s" for kind, count in sorted(counted.items())) or "nothing"
    told = f"{rendering.moment(first, zone)} – {rendering.moment(last, zone)}; {len(picked)} of {len(spans)} sessions"
    chart = tag(
        "svg", bars, viewBox="0 0 1000 84", role="img", aria_label="The sessions of the chat over time"
    )
    return join([chart, tag("p", f"{told} have a part in what is shown: {shown}.", class_="soft")])


def _shown(context: Context, zone: str) -> Html | None:
    rows = [
        tag(
            "tr",
            tag("td", block.kind),
            tag("td", "" if item.score is None else f"{item.score:.3f}", class_="num"),
            tag("td", rendering.moment(item.at, zone), class_="nowrap"),
            tag("td", item.text, " ", tag("small", item.reason)),
        )
        for block in context.blocks
        for item in block.items
    ]
    return _table(("block", "score", "when", "text and why"), rows) if rows else None


def _hits(why: Explanation, hits: Sequence[Hit], colours: Mapping[str, str], zone: str) -> Html | None:
    if not hits:
        return None
    reasons = {(each.kind, each.id): each for each in why.dropped}
    most = max(sum(map(abs, hit.components.values())) for hit in hits)
    names = [name for name in colours if any(name in hit.components for hit in hits)]
    legend = tag("p", [join([tag("i", class_=colours[name]), name]) for name in names], class_="key soft")
    rows = [
        tag(
            "tr",
            tag("td", hit.rank, class_="num"),
            tag("td", f"{hit.score:.3f}", class_="num"),
            tag(
                "td",
                _bar([(name, value, colours[name]) for name, value in hit.components.items()], most),
                tag("small", ", ".join(f"{arm} #{place}" for arm, place in hit.arms.items())),
            ),
            tag("td", rendering.moment(hit.at, zone), class_="nowrap"),
            tag("td", tag("b", hit.speaker, ": ") if hit.speaker else None, hit.preview),
            tag("td", _fate(hit, reasons.get((hit.kind, hit.id)))),
            class_=None if hit.shown_in else "out",
        )
        for hit in hits
    ]
    headings = ("#", "score", "made of; place in each arm", "when", "text", "became of it")
    return join([legend, _table(headings, rows)])


def _fate(hit: Hit, reason: Dropped | None) -> str:
    if hit.shown_in is not None:
        return f"shown in {hit.shown_in}"
    return " ".join(_reason(reason)) if reason else ""


def _reason(dropped: Dropped) -> tuple[str, str]:
    return dropped.reason.replace("_", " "), f"({dropped.detail})" if dropped.detail else ""


def _not_shown(dropped: Sequence[Dropped]) -> Html | None:
    if not dropped:
        return None
    counted = Counter((each.kind, *_reason(each)) for each in dropped)
    rows = [
        tag("tr", tag("td", f"{count:,}", class_="num"), [tag("td", cell) for cell in what])
        for what, count in counted.most_common()
    ]
    return _table(("how many", "what", "why", ""), rows)


def _parameters(why: Explanation) -> Html:
    rows = [tag("tr", tag("td", name), tag("td", value)) for name, value in why.parameters.items()]
    return tag("details", tag("summary", "What this context was made with"), _table(("name", "value"), rows))
