"""A public class, or a type, has a name of its own: whoever searches for it finds one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import retentiond

ROOT = Path(retentiond.__file__).parent


def public_types(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name.isupper():  # a constant, or a type variable
                    continue
            case _:
                continue
        if name[0].isupper():
            yield name


def test_no_two_public_types_share_a_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        for name in public_types(path):
            places[name].append(str(path.relative_to(ROOT)))
    assert len(places) > 300
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
