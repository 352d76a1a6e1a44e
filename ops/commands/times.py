"""Times as people give them on the command line."""

from datetime import UTC, datetime, tzinfo

from schemas.errors import InvalidInput


def read(given: str | None, field: str, zone: tzinfo = UTC) -> datetime | None:
    """A date, which begins at midnight, or a date and time; in this zone unless it has an offset.

    Raises `InvalidInput` that names the option.

    >>> from zoneinfo import ZoneInfo
    >>> read("2026-07-31", "since", ZoneInfo("Europe/Lisbon")).isoformat()
    '2026-07-31T00:00:00+01:00'
    """
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given.strip())
        at = at if at.tzinfo else at.replace(tzinfo=zone)
        at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"--{field} {given} is no date or time such as 2026-01-31 or 2026-01-31T18:00+01:00", field=field
        ) from error
    return at
