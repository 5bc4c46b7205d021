"""Writes the lists of jars of a Kafka version: ``python -m devkit.embedded.lock 4.4.0``."""

import sys
import tempfile
from pathlib import Path

from devkit.embedded import ivy, jars
from devkit.embedded.ivy import Coordinate
from devkit.embedded.jars import Part

ON_TOP: tuple[Part, ...] = ("tools", "streams")

STORES = ("org.rocksdb", "rocksdbjni")
"""State stores of Kafka Streams: 70 MB that no stateless application loads."""


def main() -> None:
    version = sys.argv[1]
    broker = _resolve(version, "broker")
    _write(version, "broker", broker)
    if jars.beside(version) == version:
        for part in ON_TOP:
            _write(version, part, _without(broker, _resolve(version, part)))
        _write(version, "tiered", _resolve(version, "tiered"))


def _without(
    broker: dict[Coordinate, str], resolved: dict[Coordinate, str]
) -> dict[Coordinate, str]:
    here = {(jar.organisation, jar.name) for jar in broker} | {STORES}
    return {jar: sha for jar, sha in resolved.items() if (jar.organisation, jar.name) not in here}


def _resolve(version: str, part: Part) -> dict[Coordinate, str]:
    """``tiered`` is its roots alone: the broker has what they need, and Ivy's report does not tell
    a module's jars from each other."""
    roots, is_alone = jars.roots(version, part), part == "tiered"
    with tempfile.TemporaryDirectory() as scratch:
        resolved = ivy.retrieve(roots, Path(scratch), transitive=not is_alone)
        found = roots if is_alone else resolved
        return {jar: jars.sha256(Path(scratch) / jar.file_name) for jar in found}


def _write(version: str, part: Part, locked: dict[Coordinate, str]) -> None:
    head = f"# Jars of Apache Kafka {version} ({part}), written by devkit.embedded.lock"
    lines = [f"{jar} {sha}" for jar, sha in locked.items()]
    jars.lock_file(version, part).write_text("\n".join([head, *lines]) + "\n")
    print(f"{jars.lock_file(version, part).name}: {len(lines)} jars")


if __name__ == "__main__":
    main()
