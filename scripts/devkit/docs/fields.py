"""``docs/fields.md``: what a plan says of each partition, from the fields of its rows."""

from __future__ import annotations

from collections.abc import Iterator

from retentiond.fields import Field
from retentiond.model import ROW_FIELDS

HEAD = """# Fields of a partition

A plan has one row for each partition of each enabled topic. Its fields have the same names in the
JSON of every command and of the daemon, in the audit log (`retentiond audit`: JSON, CSV, Parquet,
and the table `deletions` of `audit.db`) and in the [history](history.md). A figure that is not
known is null, and never 0 or -1 in its place.

| field | unit | what it says | audit | history |
| --- | --- | --- | --- | --- |
"""

FOOT = """
*audit*: the field is recorded with each deletion. *history*: it is recorded with each partition in
each entry. The audit log does not store verdict and reason: for a deletion they are always
`delete` and `consumed`. `retentiond audit` shows them all the same.
"""


def page() -> str:
    told = (each for each in ROW_FIELDS if each.said.in_json)
    return HEAD + "".join(f"| {' | '.join(_cells(each))} |\n" for each in told) + FOOT


def _cells(of: Field) -> Iterator[str]:
    yield f"`{of.name}`"
    yield of.said.type.unit or ""
    yield of.said.meaning.replace("|", "\\|")
    yield "" if of.said.audit is None else "yes"
    yield "yes" if of.said.in_history else ""
