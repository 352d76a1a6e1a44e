"""Small faults in a source file, as a developer makes them: the mutants that stories must notice."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of a source file."""

    path: str
    # bytes of the file that are replaced
    start: int
    end: int
    before: str
    after: str
    # first and last line of what must run to see it
    lines: tuple[int, int]

    def applied(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.lines[0]}: {before} → {after}"


SWAPPED: Mapping[type[ast.AST], Any] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Statements that may be left out, as may calls whose result nobody uses.
STEPS = (ast.Continue, ast.Break, ast.Raise, ast.Return, ast.AugAssign)
Change = tuple[ast.AST, str]


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a source file, in the order of the file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for statement, changed, after in _changes(ast.parse(source)):
        start = starts[changed.lineno - 1] + changed.col_offset
        end = starts[changed.end_lineno - 1] + changed.end_col_offset
        before = source[start:end].decode()
        lines = statement.lineno, changed.end_lineno
        found.append(Mutant(path=path, start=start, end=end, before=before, after=after, lines=lines))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


def _changes(tree: ast.Module) -> Iterator[tuple[Any, Any, str]]:
    """Yield `(statement, changed node, its new text)`."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    waiting: list[tuple[ast.AST, Any, bool]] = [(child, child, False) for child in tree.body]
    while waiting:
        node, statement, in_function = waiting.pop()
        for changed, after in _replacements(node, in_function=in_function):
            yield statement, changed, after
        inside = in_function or isinstance(node, functions)
        last = node.body[-1] if isinstance(node, functions) else None
        for child in _looked_at(node):
            if isinstance(child, ast.stmt):
                # the last return of a function is no early one
                if child is not last and (step := _left_out(child)):
                    yield child, child, step
                waiting.append((child, child, inside))
            else:
                waiting.append((child, statement, inside))


def _looked_at(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children whose faults a user could see: no annotations, decorators, checks, messages and log lines."""
    is_check = isinstance(node, ast.Raise | ast.Assert) or (
        isinstance(node, ast.keyword) and node.arg == "strict"
    )
    if is_check or isinstance(node, ast.JoinedStr) or _is_log(node):
        return
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            children = value if isinstance(value, list) else [value]
            yield from (child for child in children if isinstance(child, ast.AST))


def _is_log(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).startswith(("log.", "committed.tell"))
    )


def _left_out(statement: ast.stmt) -> str:
    if isinstance(statement, STEPS):
        return "pass"
    if isinstance(statement, ast.Expr) and not _is_log(statement):
        value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
        return "pass" if isinstance(value, ast.Call) else ""
    return ""


def _replacements(node: ast.AST, *, in_function: bool) -> Iterator[Change]:
    match node:
        case ast.Compare(left, operators, right):
            for number, operator in enumerate(operators):
                others = [*operators[:number], SWAPPED[type(operator)](), *operators[number + 1 :]]
                yield node, _text(ast.Compare(left, others, right))
        case ast.BoolOp(operator, values):
            yield node, _text(ast.BoolOp(SWAPPED[type(operator)](), values))
        case ast.BinOp(left, operator, right) if in_function and type(operator) in SWAPPED:
            yield node, _text(ast.BinOp(left, SWAPPED[type(operator)](), right))
        case ast.UnaryOp(ast.Not(), operand):
            yield node, _text(operand)
        case ast.Constant(bool(value)):
            yield node, str(not value)
        case ast.Constant(int(value) | float(value)):
            yield node, str(value + 1)
        case ast.Call(ast.Name("sorted" | "reversed"), [first, *_]):
            yield node, f"list({ast.unparse(first)})"
        case ast.Call(ast.Name(name) as function) if name in CALLS:
            yield function, CALLS[name]
        case ast.If(test) | ast.IfExp(test) if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield test, _text(ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=tests):
            yield from ((test, "True") for test in tests)


def _text(expression: ast.expr) -> str:
    return f"({ast.unparse(expression)})"
