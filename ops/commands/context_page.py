"""One page of HTML that shows how a context came about: nothing is loaded, nothing runs, all text is escaped."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ops.commands import asking, rendering
from ops.commands.html import Html, join, tag
from ops.commands.page_style import HUES, STYLE
from ops.commands.timeline import Span, timeline
from schemas.context import Context, Dropped, Explanation, Hit

# Even a browser that finds markup where there is none loads and runs nothing of it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_NUMBERS = frozenset({"#", "score", "tokens", "characters", "items", "time", "how many"})


def page(
    context: Context, why: Explanation, question: str, chat: str, zone: str, sessions: Sequence[Span]
) -> str:
    """The page, for times in this zone; `sessions` are the chat's, or its latest."""
    colours = {name: f"c{n % len(HUES)}" for n, name in enumerate(_components(why))}
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"Context: {rendering.preview(question, 80)}"),
        tag("style", Html(STYLE)),
    )
    body = tag(
        "body",
        tag("h1", question),
        _facts(context, why, chat),
        _section("Tokens by block", _tokens(context)),
        _section("Time by stage", _times(why)),
        _section("Sessions over time", timeline(context, why, zone, sessions)),
        _section("Sessions found", _hits(why, why.sessions, colours, zone)),
        _section("Messages found", _hits(why, why.messages, colours, zone)),
        _section("Memories found", _hits(why, why.memories, colours, zone)),
        _section("Not shown", _not_shown(why.dropped)),
        _section("Shown", _shown(context, zone)),
        _section("The context itself", _folded("As a model gets it", tag("pre", context.text))),
        _section("Parameters", _parameters(why)),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"


def _section(title: str, inside: Html | None) -> Html | None:
    return tag("section", tag("h2", title), inside) if inside else None


def _folded(what: str, inside: Html) -> Html:
    return tag("details", tag("summary", what), inside)


def _facts(context: Context, why: Explanation, chat: str) -> Html:
    told = [
        f"{chat}, asked by {why.asked_by}, " if why.asked_by else f"{chat}, ",
        f"profile {why.profile}, {context.used_tokens:,} of {context.budget:,} tokens, keywords: ",
        f"{why.keyword_search}, vectors: {why.vector_search}, {why.rows_compared:,} rows compared",
        ", the whole scope since narrowing found nothing good enough" if why.fell_back else "",
        f"; {asking.nearness(why.confidence)}" if why.confidence is not None else "",
    ]
    times = tag("p", f"Times preferred: {'; '.join(why.times)}", class_="soft") if why.times else None
    problems = [tag("p", f"Degraded: {each}", class_="warn") for each in context.degraded]
    leaned = (
        tag("p", f"Leans on what was just said: {', '.join(why.brief)}", class_="soft") if why.brief else None
    )
    return join([tag("p", told, class_="soft"), leaned, times, problems])


def _components(why: Explanation) -> list[str]:
    """The parts that some score has anything of."""
    hits = (*why.messages, *why.sessions, *why.memories)
    return list(dict.fromkeys(name for hit in hits for name, value in hit.components.items() if value))


def _table(headings: Iterable[str], rows: Iterable[Html], kind: str | None = None) -> Html:
    """A table; headings of `_NUMBERS` stand above numbers."""
    head = tag("tr", [tag("th", each, class_="num" if each in _NUMBERS else None) for each in headings])
    return tag("table", tag("thead", head), tag("tbody", list(rows)), class_=kind)


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
    return _table(("block", "tokens", "characters", "items", ""), rows, "short")


def _times(why: Explanation) -> Html:
    most = max(why.timings_ms.values(), default=1)
    rows = [
        tag(
            "tr",
            tag("td", stage),
            tag("td", f"{spent:,.1f} ms", class_="num"),
            tag("td", _bar([(stage, spent, "c2")], most)),
        )
        for stage, spent in why.timings_ms.items()
    ]
    return _table(("stage", "time", ""), rows, "short")


def _shown(context: Context, zone: str) -> Html | None:
    rows = [
        tag(
            "tr",
            tag("td", block.kind, class_="nowrap"),
            tag("td", "" if item.score is None else f"{item.score:.3f}", class_="num"),
            tag("td", rendering.moment(item.at, zone), class_="nowrap"),
            tag("td", item.text, " ", tag("small", item.reason), class_="text"),
        )
        for block in context.blocks
        for item in block.items
    ]
    if not rows:
        return None
    table = _table(("block", "score", "when", "text and why"), rows, "hits")
    return _folded(f"{len(rows):,} in the order they stand", table)


def _hits(why: Explanation, hits: Sequence[Hit], colours: Mapping[str, str], zone: str) -> Html | None:
    if not hits:
        return None
    reasons = {(each.kind, each.id): each for each in why.dropped}
    most = max(sum(map(abs, hit.components.values())) for hit in hits)
    names = [name for name in colours if any(hit.components.get(name) for hit in hits)]
    legend = tag(
        "p", [tag("span", tag("i", class_=colours[name]), name) for name in names], class_="key soft"
    )
    rows = [
        tag(
            "tr",
            tag("td", hit.rank, class_="num"),
            tag("td", f"{hit.score:.3f}", class_="num"),
            tag("td", _made(hit, colours, most), class_="made"),
            tag("td", rendering.moment(hit.at, zone), class_="nowrap"),
            tag("td", tag("b", hit.speaker, ": ") if hit.speaker else None, hit.preview, class_="text"),
            tag("td", _fate(hit, reasons.get((hit.kind, hit.id)))),
            class_=None if hit.shown_in else "out",
        )
        for hit in hits
    ]
    headings = ("#", "score", "made of", "when", "text", "became of it")
    return join([legend, _table(headings, rows, "hits")])


def _made(hit: Hit, colours: Mapping[str, str], most: float) -> Html:
    """The parts of a score as a bar, which opens on their figures, and the place in each arm."""
    parts = [(name, value) for name, value in hit.components.items() if value]
    figures = ", ".join(f"{name} {value:.2f}" for name, value in parts)
    bar = _bar([(name, value, colours[name]) for name, value in parts], most)
    arms = tag("small", ", ".join(f"{arm} #{place}" for arm, place in hit.arms.items()))
    return tag("details", tag("summary", bar, arms, title=figures), tag("small", figures))


def _fate(hit: Hit, reason: Dropped | None) -> str:
    if hit.shown_in is not None:
        return f"shown in {hit.shown_in}"
    return asking.reason(reason) if reason else ""


def _not_shown(dropped: Sequence[Dropped]) -> Html | None:
    """How many of what for which reason, and each of them."""
    if not dropped:
        return None
    counted = Counter((each.kind, asking.reason(each)) for each in dropped)
    rows = [
        tag("tr", tag("td", f"{count:,}", class_="num"), tag("td", kind), tag("td", why, class_="text"))
        for (kind, why), count in counted.most_common()
    ]
    each = [
        tag(
            "tr",
            tag("td", f"{one.kind} {one.id}", class_="nowrap"),
            tag("td", asking.reason(one), class_="text"),
        )
        for one in dropped
    ]
    return join([_table(("how many", "what", "why"), rows), _folded("Each", _table(("what", "why"), each))])


def _parameters(why: Explanation) -> Html:
    rows = [tag("tr", tag("td", name), tag("td", value)) for name, value in why.parameters.items()]
    return _folded("What this context was made with", _table(("name", "value"), rows))
