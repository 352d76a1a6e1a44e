"""Create, list, rotate and revoke API keys.

A key belongs to one tenant, which begins with its first key. The running Backscroll is asked where it serves the
tenant; with another `--tenant`, whose keys its own key may not make, this works on the database itself.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ops import connection
from ops.client import Api
from ops.console import rendering
from ops.console.command import Call, ListByDefault, YesOption, command, read_time
from schemas.bots import KeyIn, KeyList, ListedKey, NewKey, Rotation
from schemas.payloads import parse_payload

if TYPE_CHECKING:
    from pipeline.store.connections.database import Database
from typing import get_args

from ops.client import quoted
from schemas.bots import NewSource, Source, SourceIn, SourceList, SourcePlatform
from schemas.errors import ApiUnavailable, SettingsError

T = TypeVar("T")

app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

NONE_YET = "There is no key yet but BACKSCROLL_API_KEY: see `backscroll keys create --help`."

IdArgument = Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="The key's number.")]


@command(
    app, "backscroll keys create 'the bot of Harbour House' --chat telegram:-100420 --expires 2027-06-30"
)
def create(
    call: Call,
    label: Annotated[str, "What it is for, such as the bot's name."],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help="ingest, context, read, write, erase or operate; repeatable (default: ingest and context).",
        ),
    ] = None,
    chat: Annotated[
        list[str] | None,
        typer.Option(metavar="CHAT", help="The only chat that it may name; repeatable (default: all)."),
    ] = None,
    expires: Annotated[
        str | None, "Refused from this time on, as in 2027-01-31; UTC (default: never)."
    ] = None,
    requests_per_second: Annotated[float | None, "Requests a second at most (default: no limit)."] = None,
    messages_per_day: Annotated[int | None, "Messages a day (UTC) at most (default: no limit)."] = None,
) -> None:
    """Create a key and show it, this once: only its hash is kept.

    - **ingest**: hand over messages, edits, deletions and members
    - **context**: ask for contexts, report answers
    - **read**: search, list and export
    - **write**: documents, memories, users, and whether and how chats are remembered
    - **erase**: delete and forget
    - **operate**: keys and status
    """
    fields: dict[str, Any] = {"label": label, "scopes": scope or ["ingest", "context"], "chats": chat or None}
    fields |= {"requests_per_second": requests_per_second, "messages_per_day": messages_per_day}
    wanted = parse_payload(KeyIn, fields | {"expires_at": read_time(expires, "expires")})
    from pipeline.people import api_keys

    new = _by_api_or_database(
        call,
        lambda api: api.post("/v1/keys", wanted, NewKey),
        lambda database, tenant: api_keys.create(database, tenant, wanted),
    )
    _answer(call, new)


@command(app, "backscroll keys list --json", name="list")
def list_(call: Call) -> None:
    """List the newest keys, revoked and expired ones too, without their secrets."""
    from pipeline.people import api_keys

    keys = _by_api_or_database(call, lambda api: api.get("/v1/keys", KeyList).keys, api_keys.listing)
    cells = [
        (
            *(str(key.id), key.label, ", ".join(key.scopes), _chats(key), _limits(key)),
            *(rendering.moment(key.created_at), rendering.moment(key.last_used_at), _state(key)),
        )
        for key in keys
    ]
    headings = ("key", "label", "scopes", "chats", "limits", "created (UTC)", "last used", "state")
    call.answer({"keys": keys}, rendering.rows(headings, cells, right=("key",)) if keys else NONE_YET)


@command(app, "backscroll keys rotate 3 --keep-hours 1")
def rotate(
    call: Call,
    key_id: IdArgument,
    keep_hours: Annotated[
        float, "Hours for which the secret until now still works; 0 if it was published."
    ] = 24,
) -> None:
    """Give a key a new secret and show it, this once; the one until now works for a while."""
    wanted = parse_payload(Rotation, {"keep_hours": keep_hours})
    from pipeline.people import api_keys

    new = _by_api_or_database(
        call,
        lambda api: api.post(f"/v1/keys/{key_id}/rotate", wanted, NewKey),
        lambda database, tenant: api_keys.rotate(database, tenant, key_id, wanted),
    )
    _answer(call, new)


@command(app, "backscroll keys revoke 3")
def revoke(call: Call, key_id: IdArgument, yes: YesOption = False) -> None:
    """Revoke a key with all its secrets, for good: every process refuses it within 5 seconds."""
    call.confirm(f"Revoke key {key_id} for good?", yes=yes)
    from pipeline.people import api_keys

    revoked = _by_api_or_database(
        call,
        lambda api: api.delete(f"/v1/keys/{key_id}", ListedKey),
        lambda database, tenant: api_keys.revoke(database, tenant, key_id),
    )
    call.answer(revoked, f"Key {revoked.id} ({revoked.label}) is revoked.")


def _by_api_or_database(call: Call, ask: Callable[[Api], T], do: Callable[[Database, str], T]) -> T:
    """Ask the running Backscroll; where none serves the tenant, which may have no key yet, work on the database."""
    settings = connection.configured(call.data_dir, call.tenant)
    api = connection.running_api(settings, call.data_dir, call.tenant)
    if api is not None:
        return ask(api)
    with call.opened() as (complete, database):
        return do(database, complete.tenant)


def _answer(call: Call, new: NewKey) -> None:
    """Print a key with its secret, on a line of its own to be copied."""
    kept = (
        f" The secret until now works until {rendering.moment(new.former_until)} UTC."
        if new.former_until
        else ""
    )
    call.answer(
        new,
        f"Key {new.id} ({new.label}) of the tenant {new.tenant}: {', '.join(new.scopes)}; {_chats(new)}; "
        f"{_limits(new)}; {_state(new)}.{kept} Callers send it as `Authorization: Bearer …`; it is not shown again:",
        new.key,
    )


def _chats(key: ListedKey) -> str:
    return "all chats" if key.chats is None else ", ".join(key.chats) or "no chat"


def _limits(key: ListedKey) -> str:
    rate = f"{key.requests_per_second:g} requests/s" if key.requests_per_second else ""
    day = f"{key.messages_per_day:,} messages/day" if key.messages_per_day else ""
    return ", ".join(filter(None, (rate, day))) or "no limits"


def _state(key: ListedKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {rendering.moment(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return f"{'expired' if key.expires_at <= datetime.now(UTC) else 'valid until'} {rendering.moment(key.expires_at)}"


sources_app = typer.Typer(cls=ListByDefault, rich_markup_mode="markdown")

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


@sources_app.callback()
def sources() -> None:
    """Add, list and remove sources: URLs to which platforms send events themselves, without a bot in between.

    They are those of the running Backscroll, which the platform must reach by a public URL.
    """


@command(
    sources_app,
    "backscroll sources add telegram --url https://memory.example.org · "
    "backscroll sources add slack --secret-file signing-secret.txt",
    name="add",
)
def add_source(
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


@command(sources_app, "backscroll sources list --json", name="list")
def list_sources(call: Call) -> None:
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


@command(sources_app, "backscroll sources remove 4kB0x1Fh3Q2m9dLw", name="remove")
def remove_source(call: Call, source: Annotated[str, "The source's id."], yes: YesOption = False) -> None:
    """Remove a source: what the platform still sends to its URL is refused within 5 seconds."""
    call.confirm(f"Remove the source {source}?", yes=yes)
    gone = _api(call).delete(f"/v1/sources/{quoted(source)}", Source)
    call.answer(gone, f"Source {gone.source_id} of {gone.platform} is removed.")


def _api(call: Call) -> Api:
    try:
        return call.api()
    except ApiUnavailable as error:
        raise SettingsError(str(error)) from None
