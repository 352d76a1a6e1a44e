"""Send a chat's digest to a webhook every day: add, list and remove.

BACKSCROLL_DIGEST_HOSTS names the hosts that may be sent to. A key with the scope `operate` is needed.
"""

from typing import Annotated

import typer

from ops.console import rendering
from ops.console.command import Call, ChatOption, ListByDefault, YesOption, command, query_in
from schemas.digests import DailyDigest, DailyDigestIn, DailyDigestList, Digest, DigestQuery, NewDailyDigest

digest_app = typer.Typer(rich_markup_mode="markdown")
app = typer.Typer(help=__doc__, cls=ListByDefault, rich_markup_mode="markdown")

BudgetOption = Annotated[int | None, "Tokens at most (default: 1000)."]


@command(digest_app, "backscroll digest --chat telegram:-100420 --user telegram:11")
def digest(
    call: Call,
    chat: ChatOption = None,
    user: Annotated[str | None, "For whom: from their last message on, with what they were asked."] = None,
    since: Annotated[str | None, "From this time on, as in 2026-01-31, in the chat's zone."] = None,
    budget: BudgetOption = None,
) -> None:
    """Tell what somebody missed in a chat. The HTTP API answers the same to `POST /v1/digest`."""
    api = call.api()
    named = api.find_chat(chat)
    query = query_in(named, DigestQuery, user_id=user, moments={"since": since}, budget_tokens=budget)
    told = api.post("/v1/digest", query, Digest)
    call.answer(told, told.text)
    for problem in told.degraded:
        rendering.warn(f"Degraded: {problem}")


@command(
    app, "backscroll digests add --chat telegram:-100420 --daily 08:00 --url https://hooks.example.org/digest"
)
def add(
    call: Call,
    daily: Annotated[str, typer.Option(metavar="HH:MM", help="At this time of day.")],
    url: Annotated[str, typer.Option(help="Where it is sent.")],
    chat: ChatOption = None,
    time_zone: Annotated[
        str | None, "The clock of that time, as in Europe/Lisbon (default: the chat's)."
    ] = None,
    budget: BudgetOption = None,
) -> None:
    """Send a chat's digest every day, and show the secret that signs it, this once."""
    api = call.api()
    wanted = query_in(
        api.find_chat(chat),
        DailyDigestIn,
        daily=daily,
        url=url,
        time_zone=time_zone,
        budget_tokens=budget,
    )
    new = api.post("/v1/digests", wanted, NewDailyDigest)
    call.answer(
        new,
        f"Daily digest {new.digest_id}, first sent at {new.next_at:%Y-%m-%d %H:%M} UTC.",
        f"Its secret: {new.secret}",
    )


@command(app, "backscroll digests list --json", name="list")
def list_(call: Call) -> None:
    """List the daily digests, the oldest first, without their secrets."""
    listed = call.api().get("/v1/digests", DailyDigestList)
    cells = [
        (
            row.digest_id,
            row.chat_id,
            f"{row.daily} {row.time_zone or ''}",
            row.url,
            row.next_at,
            "its key has ended" if row.has_ended else row.last_error or "",
        )
        for row in listed.digests
    ]
    table = rendering.rows(("#", "chat", "daily", "url", "next (UTC)", "problem"), cells)
    call.answer(
        listed, table if cells else "There is no daily digest yet: see `backscroll digests add --help`."
    )


@command(app, "backscroll digests remove 3")
def remove(call: Call, digest_id: Annotated[int, "Its number."], yes: YesOption = False) -> None:
    """Remove a daily digest: nothing is sent any more."""
    call.confirm(f"Remove the daily digest {digest_id}?", yes=yes)
    gone = call.api().delete(f"/v1/digests/{digest_id}", DailyDigest)
    call.answer(gone, f"The daily digest {gone.digest_id} of {gone.chat_id} is removed.")
