"""The files that operators start from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from retentiond.config import load
from tests.unit.config.files import EXAMPLES, as_json

REFERENCE = EXAMPLES / "retentiond.yaml"


def test_the_reference_runs_against_this_machine_and_deletes_nothing() -> None:
    config = load(REFERENCE, environ={})
    assert config.dry_run is True
    assert config.kafka == {"bootstrap.servers": "localhost:9092"}


def test_the_reference_shows_the_defaults() -> None:
    schema = json.loads((EXAMPLES / "retentiond.schema.json").read_text("utf-8"))
    reference = as_json(REFERENCE.read_text("utf-8"))
    values = dict(_values(reference))
    shown = {path: value for path, value in values.items() if path[0] != "topics"}
    documented = {
        path: setting["default"] for path, setting in _settings(schema) if "default" in setting
    }
    assert len(documented) > 8
    # An external reader is shown where there is one, below a topic.
    by_place = {path: values.get(path, values.get(("topics", *path[1:]))) for path in documented}
    assert by_place == documented
    assert {path[1:]: value for path, value in shown.items() if path[0] == "defaults"} == {
        ("retention.commitoffset.enable",): False,
        ("dry_run",): False,
        ("retention.commitoffset.hours",): 168,
        ("groups", "required"): [],
        ("groups", "exclude"): [],
        ("groups", "min"): 1,
        ("groups", "external"): [],
        ("allow_compacted",): False,
        ("groups_visible",): "checked",
    }


def test_every_setting_appears_in_the_reference() -> None:
    schema = json.loads((EXAMPLES / "retentiond.schema.json").read_text("utf-8"))
    # What has no default, and can't be left in a file that is to work as it stands.
    examples = (
        r"^( *)# (?=state_dir: |tls: |basic_auth:|  prometheus: |only: |headers: |policies:"
        r"|  - file: |    topics: |    at_least|    forbid|  - policies"
        r"|disk_pressure:|  below_free|  until_free|retention.commitoffset.pressure.)"
    )
    off = "\ndisk_pressure: null\n"  # its default, with the section as an example below
    text = REFERENCE.read_text("utf-8").replace(off, "\n")
    reference = as_json(re.sub(examples, r"\1", text, flags=re.M))
    written = {path for path, _ in _values(reference)}
    # An entry of topics takes what defaults take: in one of the two places is enough.
    written |= {("topics", *path[1:]) for path in written if path[0] == "defaults"}
    written |= {("defaults", *path[1:]) for path in written if path[0] == "topics"}
    written |= {path[:1] for path in written if off in REFERENCE.read_text("utf-8")}
    written |= {path[:2] for path in written if "basic_auth" in path}  # a user is no setting
    for mapping in ("headers", "paths"):  # nor is a header or a topic
        written |= {path[: path.index(mapping) + 1] for path in written if mapping in path}
    settings = {path for path, _ in _settings(schema)}
    assert ("topics", "groups", "required") in settings
    assert settings - written == set()


def _settings(
    schema: dict[str, Any], section: dict[str, Any] | None = None, at: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Path and schema of every setting that is no section of its own."""
    for name, setting in (section or schema)["properties"].items():
        reference = setting.get("$ref") or setting.get("items", {}).get("$ref")
        if reference:
            below = schema["$defs"][reference.rpartition("/")[2]]
            yield from _settings(schema, below, (*at, name))
        elif "properties" in setting:
            yield from _settings(schema, setting, (*at, name))
        else:
            yield (*at, name), setting


def _values(document: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Path and value of everything written; the index of a topic is left out."""
    if isinstance(document, dict) and document:
        for key, value in document.items():
            yield from _values(value, (*at, key))
    elif isinstance(document, list) and any(isinstance(item, dict) for item in document):
        for item in document:
            yield from _values(item, at)
    else:
        yield at, document
