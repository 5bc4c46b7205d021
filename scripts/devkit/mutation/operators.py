"""What is changed beside what cosmic-ray changes: SQL, statements, entries and disjunctions.

cosmic-ray changes operators, numbers and conditions. The plan is written in Spark's SQL, which
is strings to it, and a guard is mostly made of statements that raise; so these are changed here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from cosmic_ray.operators.operator import (  # type: ignore[import-not-found]  # scripts/mutate's
    Example,
    Operator,
)
from parso.python.tree import Name  # type: ignore[import-not-found]  # as above
from parso.tree import NodeOrLeaf  # type: ignore[import-not-found]  # as above

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
    r'(?<=^")inner(?="$)': ("left", "left_anti"),
    r'(?<=^")left(?="$)': ("inner",),
    r'(?<=^")left_anti(?="$)': ("left_semi",),
    r'(?<=^")left_semi(?="$)': ("left_anti",),
}
"""What becomes of what in the SQL of a string."""

CHANGES = ("raise_stmt", "atom_expr", "continue_stmt", "break_stmt")
"""Statements that do something by themselves, beside `x += 1`, in parso's words."""


def changed_sql(node: NodeOrLeaf) -> Iterator[str]:
    """Only in modules that talk to Spark, and not in docstrings."""
    if node.type not in ("string", "fstring_string") or not _talks_to_spark(node):
        return
    if node.parent is None or node.parent.type == "simple_stmt":
        return
    written = node.value
    for pattern, others in SQL.items():
        for match in re.finditer(pattern, written):
            for other in others:
                yield written[: match.start()] + other + written[match.end() :]


def without_statement(node: NodeOrLeaf) -> Iterator[str]:
    """Calls, raises and changes of variables, each left out once."""
    if node.parent is None or node.parent.type != "simple_stmt":
        return
    adds = node.type == "expr_stmt" and re.fullmatch(r"[^=]+=", node.children[1].get_code().strip())
    if node.type in CHANGES or adds or node.get_code().strip() in ("continue", "break"):
        yield "pass"


def without_entry(node: NodeOrLeaf) -> Iterator[str]:
    """Dictionaries, each without one of their entries."""
    if node.type != "atom" or node.children[0].get_code().strip() != "{":
        return
    written = ast.parse(node.get_code().strip(), mode="eval").body
    if isinstance(written, ast.Dict):
        for left_out in range(len(written.keys)):
            keys, values = written.keys[:], written.values[:]
            del keys[left_out], values[left_out]
            yield ast.unparse(ast.Dict(keys, values))


ANNOTATED = ("annassign", "param", "tfpdef")


def disjunction(node: NodeOrLeaf) -> Iterator[str]:
    """Those of values, not those of types."""
    if node.type == "operator" and node.get_code().strip() == "|" and not _annotates(node):
        yield "&"


def _annotates(node: NodeOrLeaf) -> bool:
    within = node
    while (parent := within.parent) is not None:
        if parent.type in ANNOTATED:
            return True
        if parent.type == "funcdef":
            return within is not parent.children[-1]
        within = parent
    return False


def _talks_to_spark(node: NodeOrLeaf) -> bool:
    return "pyspark" in node.get_root_node().get_code()


def _operator(name: str, texts: Callable[[NodeOrLeaf], Iterator[str]]) -> type[Operator]:
    """An operator of cosmic-ray's that puts each of the texts in a node's place."""

    def mutation_positions(_: Operator, node: NodeOrLeaf) -> Iterator[object]:
        for _text in texts(node):
            yield node.start_pos, node.end_pos

    def mutate(_: Operator, node: NodeOrLeaf, index: int) -> Name:
        text = list(texts(node))[index]
        return Name(text, node.start_pos, node.get_first_leaf().prefix)

    def examples(_: type[Operator]) -> tuple[Example, ...]:
        return ()

    methods = {
        "mutation_positions": mutation_positions,
        "mutate": mutate,
        "examples": classmethod(examples),
    }
    return type(name, (Operator,), methods)


class Provider:
    """As cosmic-ray asks for a plug-in's operators."""

    operators = {  # noqa: RUF012 - nobody changes it
        each.__name__: _operator(each.__name__, each)
        for each in (changed_sql, without_statement, without_entry, disjunction)
    }

    def __iter__(self) -> Iterator[str]:
        return iter(self.operators)

    def __getitem__(self, name: str) -> type[Operator]:
        return self.operators[name]
