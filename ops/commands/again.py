"""The command that was given, whole and quoted for a shell, with something said otherwise."""

import shlex
from typing import Any

import typer


def command(ctx: typer.Context, **changes: object) -> str:
    """What to type to do the same again, with these parameters as they are said here."""
    values = ctx.params | changes
    words = ctx.command_path.split()
    param: Any
    for param in ctx.command.params:
        value = values.get(str(param.name))
        if value is None or value is False:
            continue
        if param.param_type_name == "argument":
            text = str(value)
            words.append(f"./{text}" if text.startswith("-") else text)
        elif param.is_flag:
            words.append(max(param.opts, key=len))
        else:
            words += [max(param.opts, key=len), str(value)]
    return shlex.join(words)
