"""Which mutants are worth no trial: those that do the same as the original, or as another one."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

KNOWN = Path(__file__).with_name("equivalent.toml")

USELESS = ("RemoveDecorator", "VariableInserter", "VariableReplacer")
"""cosmic-ray's operators that prove nothing: a dataclass that is none fails at once, and the others
need arguments."""

ARITHMETIC = {"Add", "Sub", "Mul", "FloorDiv", "Mod", "BitOr", "BitAnd"}
"""Operators that occur here; each becomes another one of these."""

IDENTITY = {"Is", "IsNot"}

ORDER = {"Lt", "LtE", "Gt", "GtE"}
"""What "is" does not become: None has no order, and that of an enum's texts is of no interest."""

_ALIKE: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}


@dataclass(frozen=True)
class Mutant:
    """``was`` and ``becomes``: the lines that differ; ``after``: the one before them, all as
    `ast.unparse` writes them. So it stays the same when other lines come and go."""

    module: str
    after: str
    was: str
    becomes: str


def is_of_use(operator: str, source: str) -> bool:
    """Whether it changes what the source computes; the star of a signature is no product."""
    if operator.endswith(USELESS):
        return False
    pair = re.search(r"Replace(Binary|Comparison)Operator_([A-Za-z]+)_(\w+)$", operator)
    if pair is None:
        return True
    kind, this, other = pair.groups()
    kinds = ast.operator | ast.cmpop
    present = {
        type(each).__name__ for each in ast.walk(ast.parse(source)) if isinstance(each, kinds)
    }
    if kind == "Binary":
        return this in present and {this, other} <= ARITHMETIC
    return (
        this in present
        and not (this in ORDER and other in IDENTITY)
        and not (this in IDENTITY and other in ORDER)
    )


def known(module: str) -> set[Mutant]:
    """Those that somebody has found to do the same, each with a reason in the file."""
    listed = tomllib.loads(KNOWN.read_text())["mutant"]
    return {
        Mutant(module, each["after"], each["was"], becomes)
        for each in listed
        if each["module"] == module
        for becomes in _texts(each["becomes"])
    }


def _texts(written: str | list[str]) -> list[str]:
    return [written] if isinstance(written, str) else written


def bare(source: str) -> str | None:
    """The source without what does nothing: annotations, docstrings, decorators of classes, zip's
    being strict, which only speaks up about mistakes of our own, and the difference between "is"
    and "==", where both sides are members of an enum or None. None: it is no Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
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
    return ast.unparse(ast.fix_missing_locations(tree))


def mutant(module: str, original: str, changed: str) -> Mutant:
    """Both as `bare` has them."""
    before, after = original.splitlines(), changed.splitlines()
    pairs = enumerate(zip(before, after, strict=False))
    last = min(len(before), len(after)) - 1
    at = next((number for number, pair in pairs if len({*pair}) > 1), last)
    previous = before[at - 1].strip() if at else ""
    return Mutant(module, previous, before[at].strip(), after[at].strip())


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
