"""`python -m backscroll_client`: look after what the API refused for good."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from backscroll_client.calls import lane_of
from backscroll_client.client import Backscroll
from backscroll_client.errors import BackscrollError, BufferUnusable

HELP = """examples:
  python -m backscroll_client list bot.sqlite
  python -m backscroll_client send bot.sqlite          # as BACKSCROLL_URL and BACKSCROLL_API_KEY say
  python -m backscroll_client drop bot.sqlite 12 13

exit codes: 0 done, 1 not all of it was taken, 2 wrong usage, 3 the buffer is open in a client or cannot be used
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m backscroll_client",
        description="Look after what the API refused for good, while no client has the buffer open.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    told = (
        "list it with the reasons; send it again, with all that waits; or delete it for good, or what waits"
    )
    parser.add_argument("command", choices=["list", "send", "drop"], help=told)
    parser.add_argument("buffer", type=Path, help="the file")
    parser.add_argument("numbers", nargs="*", type=int, help="as listed; to send, default: all")
    parser.add_argument("--json", action="store_true", help="list as JSON, with the bodies")
    asked = parser.parse_args(words)
    if asked.command == "drop" and not asked.numbers:
        parser.error("drop needs the numbers of what is to be deleted")
    try:
        if not asked.buffer.exists():
            raise BufferUnusable(f"there is no buffer {asked.buffer}")
        # only sending needs the key
        key = None if asked.command == "send" else os.environ.get("BACKSCROLL_API_KEY") or "none"
        with Backscroll(api_key=key, buffer=asked.buffer) as memory:
            is_done = True
            if asked.command == "drop":
                is_done = memory.drop(*asked.numbers) == len(asked.numbers)
            elif asked.command == "send":
                memory.send_again(*asked.numbers)
                is_done = memory.flush() and not memory.set_aside()
            _print(memory, as_json=asked.json)
            return 0 if is_done else 1
    except (BackscrollError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 3 if isinstance(error, BufferUnusable) else 1


def _print(memory: Backscroll, *, as_json: bool) -> None:
    requests = [
        vars(request) | {"chat": lane_of(request.path, request.body)} for request in memory.set_aside()
    ]
    if as_json:
        listed = [request | {"body": request["body"].decode(errors="replace")} for request in requests]
        print(json.dumps({"waiting": memory.waiting, "set_aside": listed}, indent=2))
        return
    for request in requests:
        print("{number}\t{chat}\t{method} {path}\t{reason}".format(**request))
    print(f"{len(requests)} set aside, {memory.waiting} wait to be sent")


if __name__ == "__main__":
    sys.exit(main())
