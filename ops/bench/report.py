"""What a run of the benchmark found, as tables."""

from rich.table import Table

from ops.bench.contexts import Measured, Spread


def tables(found: Measured) -> list[Table]:
    """The figures, and the limits beside what was measured."""
    return [_figures(found), _gates(found)]


def _figures(found: Measured) -> Table:
    table = Table(
        title=f"{found.messages:,} messages in {found.chats} chats, {found.embedder}", show_header=False
    )
    table.add_row("vectors", found.vectors)
    table.add_row("context, p50 / p95", _spread(found.context))
    embed = found.stages["embed"].p50 if "embed" in found.stages else 0.0
    table.add_row("  without embedding the question, p50", f"{found.context.p50 - embed:.1f} ms")
    for stage, spent in found.stages.items():
        table.add_row(f"  {stage}", _spread(spent))
    table.add_row("  words, vectors", f"{found.keyword_search}, {found.vector_search}")
    table.add_row("top-10 search, p50 / p95", _spread(found.search))
    if found.narrowed is not None:
        table.add_row("search narrowed to 3 sessions", f"{found.narrowed.narrowed_ms} ms")
        table.add_row("search over everything, exactly", f"{found.narrowed.global_ms} ms")
    table.add_row("filled in", f"{found.fill_seconds} s")
    table.add_row(
        "tables and indexes", f"{found.database_mb} MB ({found.database_mb_per_10k} per 10,000 messages)"
    )
    table.add_row("this process, model warm", f"{found.process_warm_mb} MB")
    table.add_row("  grew by", f"{found.process_growth_mb} MB")
    return table


def _gates(found: Measured) -> Table:
    table = Table(title="limits")
    for name in ("limit", "measured", "", "what is counted"):
        table.add_column(name)
    for gate in found.gates():
        bound = f"{gate.name}: {'at least' if gate.more_is_better else 'at most'} {gate.limit:g} {gate.unit}"
        kept = "[green]kept[/green]" if gate.kept else "[red]not kept[/red]"
        table.add_row(bound, f"{gate.measured:g}", kept, gate.counted)
    return table


def _spread(spread: Spread) -> str:
    return f"{spread.p50} / {spread.p95} ms"
