"""From the file to a `Config`, and its JSON Schema: ``python -m retentiond.config.reader``.

It describes the file before substitution, so every number and boolean may be a ``${…}``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from retentiond.config.config import Config
from retentiond.config.document import CheckProperties, Outside, read_document, substitute
from retentiond.config.files import ConfigFiles
from retentiond.config.parsing import parsed, read_text
from retentiond.config.policy_files import check_readers, read_policy_files
from retentiond.config.values import Folder, Section
from retentiond.errors import ConfigError
from retentiond.state_places import SYSTEM_STATE_DIR, daemon_state_dir

MOST_BYTES = 64 << 20

READINGS = 20
"""How often files that change while they are read are read again, and how long after."""

PAUSE_S = 0.05


def load(
    path: Path,
    environ: Mapping[str, str] | None = os.environ,
    *,
    option: str = "--config",
    none_yet: bool = False,
    tell: Callable[[ConfigFiles], None] = lambda _files: None,
    check_properties: CheckProperties = lambda _properties: None,
    make_files: Callable[[], ConfigFiles] = ConfigFiles,
    readers_in_force: Mapping[str, object] = MappingProxyType({}),
) -> Config:
    """The configuration in the file, which ``option`` names. ``environ`` None: what comes from
    outside the files is not asked for. ``none_yet``: a glob of ``policies`` may lead to no file.
    ``tell`` gets the files that were read, also of a bad configuration. ``check_properties`` raises
    ConfigError for properties of Kafka's clients that these don't take. ``make_files``: how
    it looks at files. ``readers_in_force``: `Config.readers` of the configuration before.
    Raises ConfigError, which names file and key."""
    written: frozenset[str] = frozenset()
    for number in range(READINGS + 1):
        files = make_files() if number < READINGS else ConfigFiles(unsettled=written)
        outside = Outside(environ, files, path.parent, check_properties, readers_in_force)
        read: Config | ConfigError
        try:
            text = read_text(path, option, files, MOST_BYTES)
            read = _config(text, outside, none_yet=none_yet)
        except ConfigError as exc:
            read = exc.in_file(str(path))
        written = files.written_until(files.look_again())
        if not written:
            break
        time.sleep(PAUSE_S)
    else:
        read = ConfigError(
            "expected files that belong together, but they keep changing while they are read; try "
            "again once they are written",
            file=str(path),
        )
    files.let_go()
    tell(files)
    if isinstance(read, ConfigError):
        raise read
    return read


def parse(text: str, environ: Mapping[str, str] | None, base_dir: Path) -> Config:
    """The configuration in a text; files are relative to ``base_dir``.

    Raises ConfigError with the path of the first key that is wrong, or the line and column
    where the text is no YAML.
    """
    return _config(text, Outside(environ, ConfigFiles(), base_dir))


def _config(text: str, outside: Outside, *, none_yet: bool = False) -> Config:
    config = parsed(Config, text, "the sections kafka and topics", outside)
    outside.check_properties(config.kafka)
    check_readers((config.defaults, *config.topics), outside)
    files = read_policy_files(config, outside, none_yet=none_yet)
    config.add_files(files, outside.base_dir, outside.readers_in_force)
    is_said = "state_dir" in config.model_fields_set or config.state_dir == SYSTEM_STATE_DIR
    if not (config.dry_run or is_said):  # a dry_run that is not known is not false
        raise ConfigError(
            "expected a folder where dry_run is false: the default depends on the user (here "
            f"{config.state_dir}), and in another folder no group is remembered",
            path="state_dir",
        )
    return config


class _StateDirAlone(Section):
    state_dir: Folder = Field(default_factory=daemon_state_dir)


def state_dir_alone(path: Path, environ: Mapping[str, str], option: str = "--config") -> Path:
    """The ``state_dir`` of a configuration that may be wrong elsewhere, in a team's file for one.
    None of its other settings and files is read. Raises ConfigError, also if the folder depends on
    the user."""
    files = ConfigFiles()
    tree = read_document(read_text(path, option, files, MOST_BYTES))
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping of settings")
    tree = {key: value for key, value in tree.items() if key == "state_dir"}
    try:
        tree = substitute(tree, Outside(environ, files, path.parent))
        state_dir = _StateDirAlone.model_validate(tree).state_dir
    except ValidationError:
        raise ConfigError("expected a folder", path="state_dir") from None
    if not tree and state_dir != SYSTEM_STATE_DIR:
        raise ConfigError(
            "expected a folder, because the default depends on the user", path="state_dir"
        )
    return state_dir


EXAMPLE, SCHEMA = "retentiond.yaml", "retentiond.schema.json"
"""A configuration to start from, and its JSON Schema."""


def shipped(name: str) -> str:
    """`EXAMPLE` or `SCHEMA`: beside this file where retentiond is installed, else where they are
    written, in a clone's ``config/``."""
    here = Path(__file__)
    installed = here.with_name(name)
    path = installed if installed.exists() else here.parents[2] / "config" / name
    return path.read_text("utf-8")


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
        if schema.get("default") == ():
            return self.generate_inner(inner)
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
    return Config.model_json_schema(schema_generator=_FileSchema)


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
