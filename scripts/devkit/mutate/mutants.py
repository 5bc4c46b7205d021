"""The mutants of a module: cosmic-ray's, dropped statements and entries, and changed SQL.

cosmic-ray changes operators, numbers and conditions. The plan is written in Spark's SQL, which
is strings to it, and a guard is mostly made of statements that raise; so these are changed here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found]  # scripts/mutate's
from cosmic_ray.plugins import get_operator, operator_names  # type: ignore[import-not-found]

SQL = {
    r">=": (">", "<="),
    r"<=": ("<", ">="),
    r"(?<![<>=-])>(?!=)": (">=", "<"),
    r"<(?![=>])": ("<=", ">"),
    r"(?<![<>=!])=(?!=)": ("<>",),
    r"\bAND\b": ("OR",),
    r"\bOR\b": ("AND",),
    r"\bIS NULL\b": ("IS NOT NULL",),
    r"\bIS NOT NULL\b": ("IS NULL",),
    r"\bNOT (?!NULL)": ("",),
    r"\bmin\(": ("max(",),
    r"\bmax\(": ("min(",),
    r"\bleast\(": ("greatest(",),
    r"\bbool_or\(": ("bool_and(",),
    r"\btrue\b": ("false",),
    r"\bfalse\b": ("true",),
    r" \* ": (" + ",),
    r" \+ ": (" - ",),
    r" - ": (" + ",),
    r"\b0L?\b": ("1",),
    r"^inner$": ("left", "left_anti"),
    r"^left$": ("inner",),
    r"^left_anti$": ("left_semi",),
    r"^left_semi$": ("left_anti",),
}
"""What becomes of what in the SQL of a string."""

USELESS = (
    "core/RemoveDecorator",  # a dataclass that is none fails at once
    "core/VariableInserter",
    "core/VariableReplacer",  # both need arguments
)

ARITHMETIC = {"Add", "Sub", "Mul", "FloorDiv", "Mod", "BitOr", "BitAnd"}
"""Operators that occur here; each becomes another one of these."""

IDENTITY = {"Is", "IsNot"}

ORDER = {"Lt", "LtE", "Gt", "GtE"}
"""What "is" does not become: None has no order, and that of an enum's texts is of no interest."""


SHOWN = 80

_ALIKE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}


@dataclass(frozen=True)
class Mutant:
    """``was`` and ``becomes``: the lines that differ; ``after``: the one before them.

    ``line`` counts in the module as `ast.unparse` writes it, without its docstrings.
    """

    module: str
    line: int
    after: str
    was: str
    becomes: str
    source: str

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What stays the same when other lines come and go."""
        return self.module, self.after, self.was, self.becomes

    def __str__(self) -> str:
        """A long line from shortly before it differs."""
        pairs = enumerate(zip(self.was, self.becomes, strict=False))
        differs_at = next((at for at, (one, other) in pairs if one != other), 0)
        start = max(0, differs_at - SHOWN // 2)
        was, becomes = (text[start : start + SHOWN] for text in (self.was, self.becomes))
        return f"{self.module}:{self.line}: {'…' if start else ''}{was}  →  {becomes}"


def mutants(root: Path, path: Path) -> list[Mutant]:
    """All that differ in what they do, in the order of lines."""
    source = path.read_text()
    module = ".".join(path.relative_to(root).with_suffix("").parts)
    original = ast.unparse(_bare(source))
    seen = {original}
    found = []
    ways = (_by_library, _without_statements, _without_entries, _by_sql)
    for changed in (changed for way in ways for changed in way(source)):
        bare = ast.unparse(_bare(changed))
        if bare not in seen:
            seen.add(bare)
            found.append(_mutant(module, original, bare, source, changed))
    return sorted(found, key=lambda each: each.line)


def _bare(source: str) -> ast.Module:
    """Without what does nothing: annotations, docstrings, a dataclass's being frozen, zip's being
    strict, which only speaks up about mistakes of our own, and the difference between "is" and
    "==", where both sides are members of an enum or None."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Name("object")
        elif isinstance(node, ast.ClassDef):
            node.decorator_list = []
        elif isinstance(node, ast.Call):
            node.keywords = [each for each in node.keywords if each.arg != "strict"]
        elif isinstance(node, ast.Compare):
            node.ops = [_ALIKE.get(type(each), type(each))() for each in node.ops]
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
    return ast.fix_missing_locations(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _mutant(module: str, original: str, bare: str, source: str, changed: str) -> Mutant:
    before, after = original.splitlines(), bare.splitlines()
    at = next(
        (
            number
            for number, pair in enumerate(zip(before, after, strict=False))
            if len({*pair}) > 1
        ),
        min(len(before), len(after)) - 1,
    )
    previous = before[at - 1].strip() if at else ""
    return Mutant(module, at + 1, previous, before[at].strip(), after[at].strip(), changed)


def _by_library(source: str) -> Iterator[str]:
    kinds = ast.operator | ast.cmpop
    present = {
        type(each).__name__ for each in ast.walk(ast.parse(source)) if isinstance(each, kinds)
    }
    for name in operator_names():
        if name in USELESS or not _occurs(name, present):
            continue
        operator = get_operator(name)()
        occurrence = 0
        while (changed := mutate_code(source, operator, occurrence)) is not None:
            occurrence += 1
            if _compiles(changed):
                yield changed


def _occurs(operator: str, present: set[str]) -> bool:
    """Whether it can change anything; it takes a while to find out that it can't."""
    pair = re.search(r"Replace(Binary|Comparison)Operator_([A-Za-z]+)_(\w+)$", operator)
    if pair is None:
        return True
    kind, this, other = pair.groups()
    if kind == "Binary":
        return this in present and {this, other} <= ARITHMETIC
    return this in present and not (this in IDENTITY and other in ORDER)


def _compiles(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _without_statements(source: str) -> Iterator[str]:
    """Calls, raises and changes of variables, each left out once."""
    kinds = (ast.Expr, ast.Raise, ast.AugAssign, ast.Continue, ast.Break)
    for node in _statements(source):
        if isinstance(node, kinds) and not _is_text(node):
            yield _replaced(source, node, "pass")


def _without_entries(source: str) -> Iterator[str]:
    """Dictionaries, each without one of their entries."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            for left_out in range(len(node.keys)):
                keys, values = node.keys[:], node.values[:]
                del keys[left_out], values[left_out]
                yield _replaced(source, node, ast.unparse(ast.Dict(keys, values)))


def _statements(source: str) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))


def _by_sql(source: str) -> Iterator[str]:
    """Only in modules that talk to Spark; their docstrings change nothing and fall out later."""
    if "pyspark" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _changed_text(source, node)


def _changed_text(source: str, node: ast.Constant) -> Iterator[str]:
    """By the text as it stands in the source: an f-string's parts have no place of their own."""
    written = ast.get_source_segment(source, node)
    if written is None:
        return
    for pattern, others in SQL.items():
        anchored = pattern.replace("^", '(?<=^")').replace("$", '(?="$)')
        for match in re.finditer(anchored, written):
            for other in others:
                text = written[: match.start()] + other + written[match.end() :]
                changed = _replaced(source, node, text)
                if _compiles(changed):
                    yield changed


def _replaced(source: str, node: ast.stmt | ast.expr, text: str) -> str:
    """``source`` with other text in the node's place."""
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    head = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    tail = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (head + text.encode() + tail).decode()
