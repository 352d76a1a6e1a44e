"""`backscroll mcp`: the tools for language models over standard input and output."""

import typer

from ops import connection
from ops.console.command import command
from ops.console.options import DataDirOption

app = typer.Typer(rich_markup_mode="markdown")


@command(app, "BACKSCROLL_URL=https://… BACKSCROLL_API_KEY=… backscroll mcp")
def mcp(data_dir: DataDirOption = None) -> None:
    """Offer memory to a language model: a Model Context Protocol server on standard input and output.

    Its tools ask the HTTP API at **BACKSCROLL_URL** with **BACKSCROLL_API_KEY**, or else the running **backscroll
    up**; the scopes of the key decide which tools there are. A client that speaks HTTP needs no command: the API
    offers the same at **/mcp**.
    """
    api = connection.require_api(data_dir, None)
    import anyio

    from workers.mcp.server import serve_stdio

    anyio.run(serve_stdio, api.url, api.api_key)
