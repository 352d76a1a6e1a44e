"""Read the phrases of many languages from the text files beside the modules that recognize them."""

import re
from importlib.resources import files

_SECTION = re.compile(r"\[([\w ]+)\]")


def sections(package: str, file: str) -> dict[str, str]:
    """Return the alternatives under each `[heading]` of a package's file, one pattern for each section."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (files(package) / file).read_text(encoding="utf-8").splitlines():
        if heading := _SECTION.fullmatch(line):
            name = heading[1]
        elif line and not line.startswith("#"):
            found.setdefault(name, []).append(line)
    return {name: "|".join(alternatives) for name, alternatives in found.items()}
