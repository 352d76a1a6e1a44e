"""Add, list and remove sources: URLs to which platforms send events themselves, without a bot in between.

They are those of the running Backscroll, which the platform must reach by a public URL.
"""

from typing import Annotated, Any, get_args

import typer

from ops.client import Api, quoted
from ops.console import rendering
from ops.console.command import Call, ListByDefault, YesOption, command
from schemas.bots import NewSource, Source, SourceIn, SourceList, SourcePlatform
from schemas.errors import ApiUnavailable, SettingsError
from schemas.payloads import parse_payload

app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

PASTE = {
    "telegram": """\
curl "https://api.telegram.org/bot$BOT_TOKEN/setWebhook" -d url={url} -d secret_token={secret} \\
  -d 'allowed_updates=["message","edited_message","channel_post","edited_channel_post","chat_member"]'""",
    "slack": "In the app's Event Subscriptions, the Request URL: {url}",
    "discord": "In the app's Webhooks, the Endpoint URL: {url}\nServers' messages come by a bot only.",
    "whatsapp": "In the app's webhook settings, the Callback URL: {url}\nand the Verify token: {verify_token}",
    "matrix": """\
In the registration of the application service:
url: {url}
hs_token: {secret}""",
    "line": "In the channel's Messaging API settings, the Webhook URL: {url}\nand switch on Use webhook.",
    "standard": "Send webhooks to {url}\nsigned with the secret {secret}",
}


@command(
    app,
    "backscroll sources add telegram --url https://memory.example.org · "
    "backscroll sources add slack --secret-file signing-secret.txt",
)
def add(
    call: Call,
    platform: Annotated[str, f"One of {', '.join(get_args(SourcePlatform))}."],
    label: Annotated[str, "What it is for, in lists."] = "",
    chat: Annotated[
        list[str] | None, "A chat that it may write to; may be repeated (default: all of the tenant)."
    ] = None,
    url: Annotated[
        str | None, "The public URL of this Backscroll (default: the one that it has here)."
    ] = None,
    secret_file: Annotated[
        typer.FileText | None,
        typer.Option(
            help="A file with Slack's signing secret, Discord's public key, the secret of WhatsApp's app or of LINE's "
            "channel; - is standard input. The others get a secret of ours."
        ),
    ] = None,
) -> None:
    """Add a source, and show what to paste into the platform; the secret is shown this once."""
    fields: dict[str, Any] = {"platform": platform, "label": label, "chats": chat or None}
    if secret_file is not None:
        fields["secret"] = secret_file.read().strip()
    api = _api(call)
    new = api.post("/v1/sources", parse_payload(SourceIn, fields), NewSource)
    values = {"url": (url or api.url).rstrip("/") + new.path, "verify_token": new.verify_token}
    secret = new.secret or "that of the file"
    call.answer(new, f"Source {new.source_id}.", PASTE[new.platform].format(**values, secret=secret))


@command(app, "backscroll sources list --json", name="list")
def list_(call: Call) -> None:
    """List the sources, the oldest first, without their secrets."""
    listed = _api(call).get("/v1/sources", SourceList)
    cells = [
        (
            row.source_id,
            row.platform,
            row.label,
            row.made_by or "",
            "ended" if row.has_ended else "",
            row.created_at,
        )
        for row in listed.sources
    ]
    table = rendering.rows(("source", "platform", "label", "key", "", "created (UTC)"), cells)
    call.answer(listed, table if cells else "There is no source yet: see `backscroll sources add --help`.")


@command(app, "backscroll sources remove 4kB0x1Fh3Q2m9dLw")
def remove(call: Call, source: Annotated[str, "The source's id."], yes: YesOption = False) -> None:
    """Remove a source: what the platform still sends to its URL is refused within 5 seconds."""
    call.confirm(f"Remove the source {source}?", yes=yes)
    gone = _api(call).delete(f"/v1/sources/{quoted(source)}", Source)
    call.answer(gone, f"Source {gone.source_id} of {gone.platform} is removed.")


def _api(call: Call) -> Api:
    try:
        return call.api()
    except ApiUnavailable as error:
        raise SettingsError(str(error)) from None
