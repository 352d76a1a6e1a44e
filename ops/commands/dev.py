"""`backscroll dev`: evaluations and benchmarks, on databases of their own."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ops import connection

app = typer.Typer(rich_markup_mode="markdown", help="Evaluate and measure Backscroll.", no_args_is_help=True)
evaluations = typer.Typer(rich_markup_mode="markdown", help="How much of the evidence is found.")
app.add_typer(evaluations, name="eval")

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@evaluations.command(
    epilog="**Examples:** backscroll dev eval locomo ./locomo · "
    "BACKSCROLL_EMBEDDING_PROVIDER=deterministic backscroll dev eval locomo ./locomo --json"
)
def locomo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of LoCoMo conversations (*.json).")],
    as_json: JsonOption = False,
) -> None:
    """Fill a fresh database with each conversation through the shipped path and ask its questions.

    Counts, over all questions with evidence: the mean share of the evidence found, the share of questions with
    any and with all of it, among the first sessions and turns; and the share whose text stands in the context
    assembled under 800 and 2,000 tokens. Nothing is kept, and no data of yours is touched.
    """
    from ops.eval import run

    console = Console(stderr=True)
    with console.status("starting") as status:
        tables = run.locomo(folder, connection.configured(), lambda stage: status.update(stage))
    if as_json:
        json.dump(tables, sys.stdout, indent=2)
        print()
    else:
        _print(tables)


def _print(tables: dict[str, Any]) -> None:
    table = Table(title=f"{tables['questions']} questions; shares in %")
    for name in ("questions", "what", "mean", "any", "all"):
        table.add_column(name, justify="left" if name == "questions" else "right")
    for name, part in {"all": tables, **tables["by_category"]}.items():
        label = f"{name} ({part['questions']})"
        for level in ("session", "turn"):
            for k in part[level]["mean"]:
                shares = [f"{100 * part[level][kind][k]:.1f}" for kind in ("mean", "any", "all")]
                table.add_row(label, f"{level} R@{k}", *shares)
                label = ""
        for budget, share in part["coverage"].items():
            table.add_row("", f"coverage, {budget} tokens", f"{100 * share:.1f}", "", "")
        table.add_section()
    Console().print(table)
