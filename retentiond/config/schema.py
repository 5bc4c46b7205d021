"""The JSON Schema of the file, made from the models: ``python -m retentiond.config.schema``.

It describes the file before substitution, so every number and boolean may be a ``${…}``.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from retentiond.config.config import Config

_SUBSTITUTION = {"type": "string", "pattern": r"^\$\{[^}]+\}$"}
_ABOUT = "Configuration of retentiond, before ${NAME} and ${file:PATH} are replaced."


class _FileSchema(GenerateJsonSchema):
    """Pydantic's schema of the values, turned into one of what operators write."""

    def generate(
        self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation"
    ) -> JsonSchemaValue:
        whole = {"$schema": self.schema_dialect} | super().generate(schema, mode)
        return whole | {"title": "retentiond.yaml", "description": _ABOUT}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """A plain None stands for "not set in this place": nobody writes it."""
        inner = schema["schema"]
        if inner["type"] == "nullable":
            return self.generate_inner(inner["schema"])
        return super().default_schema(schema)

    def field_title_should_be_set(self, schema: object) -> bool:
        return False  # a title would only repeat the key

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        return {"anyOf": [super().int_schema(schema), _SUBSTITUTION]}

    def bool_schema(self, schema: core_schema.BoolSchema) -> JsonSchemaValue:
        return {"anyOf": [super().bool_schema(schema), _SUBSTITUTION]}


def json_schema() -> dict[str, Any]:
    """The schema as a JSON value."""
    return Config.model_json_schema(schema_generator=_FileSchema)


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
