"""The JSON Schema says what the parser says, as far as a schema can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from retentiond.config.reader import json_schema
from tests.unit.config.files import (
    DEMO_ENVIRON,
    EXAMPLES,
    HASH,
    MALFORMED,
    MINIMAL,
    ONE_TOPIC,
    Malformed,
    as_json,
    parsed,
)

SHIPPED: dict[str, Any] = json.loads((EXAMPLES / "retentiond.schema.json").read_text("utf-8"))
SEEN_BY_A_SCHEMA = [case for case in MALFORMED if case.schema != "can't see it"]


def accepts(text: str) -> bool:
    return Draft202012Validator(SHIPPED).is_valid(as_json(text))


def test_the_shipped_schema_is_the_generated_one() -> None:
    assert json_schema() == SHIPPED


def test_the_module_prints_the_shipped_file() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "retentiond.config.reader"], check=True, capture_output=True
    )
    assert printed.stdout == (EXAMPLES / "retentiond.schema.json").read_bytes()


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SHIPPED)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_example_is_valid(example: Path) -> None:
    Draft202012Validator(SHIPPED).validate(as_json(example.read_text("utf-8")))
    parsed(example.read_text("utf-8"), DEMO_ENVIRON)


@pytest.mark.parametrize("case", SEEN_BY_A_SCHEMA, ids=lambda case: case.name)
def test_a_malformed_file_is_refused_where_a_schema_can_express_it(case: Malformed) -> None:
    assert accepts(case.text) is (case.schema == "accepts")


@pytest.mark.parametrize(
    "setting",
    [
        "dry_run: ${NO}",
        "http: {port: '${PORT}', host: 127.0.0.1}",
        "schedule: {interval: '${N}s'}",
        "limits: {records_per_cycle: null, partitions_per_cycle: 1, settle_cycles: '${PORT}'}",
        "spark: {master: local, conf: {spark.a: 2, spark.b: false, spark.c: x}}",
        "defaults: {groups: {required: [123, on, true], exclude: [1], min: '${PORT}'}}",
        "state_dir: 1",
        "http: {tls: {certificate: tls.crt, key: '${NO}'}, basic_auth: {prometheus: "
        f"{HASH}, grafana: '${{HASH}}'}}}}",
    ],
)
def test_what_the_parser_takes_the_schema_takes(setting: str) -> None:
    text = f"{MINIMAL}{ONE_TOPIC}{setting}\n"
    parsed(text, {"NO": "false", "PORT": "1", "N": "30", "HASH": HASH})
    assert accepts(text)


def test_a_default_in_the_schema_changes_nothing_when_it_is_written_out() -> None:
    properties: dict[str, Any] = {**SHIPPED["properties"]}
    document: dict[str, Any] = as_json(MINIMAL + ONE_TOPIC)
    for name, schema in properties.items():
        section = SHIPPED["$defs"].get(schema.get("$ref", "").rpartition("/")[2], {})
        values = {
            key: setting["default"]
            for key, setting in section.get("properties", {}).items()
            if "default" in setting
        }
        if "default" in schema:
            document[name] = schema["default"]
        elif values:
            document[name] = values
    assert set(document) >= {"dry_run", "schedule", "http", "spark", "limits"}
    assert parsed(json.dumps(document)) == parsed(MINIMAL + ONE_TOPIC)


def test_every_setting_is_described() -> None:
    sections = [SHIPPED, *SHIPPED["$defs"].values()]
    settings = [item for section in sections for item in section["properties"].items()]
    assert len(settings) > 30
    assert [name for name, schema in settings if not schema.get("description")] == []
