"""From the file to a `Config`, and its JSON Schema: ``python -m retentiond.config.reader``.

It describes the file before substitution, so every number and boolean may be a ``${…}``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from retentiond.config.config import Config
from retentiond.config.document import (
    Outside,
    Scalar,
    dotted,
    read_document,
    shown,
    substitute,
)
from retentiond.config.fences import KINDS_OF_POLICY_FILES, Fence
from retentiond.config.files import ConfigFiles, find
from retentiond.config.no_policy import UnreadableFile
from retentiond.config.policy import work_out_policies
from retentiond.config.rules import PolicyFile
from retentiond.config.values import Section, is_unknown, not_blank
from retentiond.errors import OUT_OF_BOUNDS, ConfigError
from retentiond.state_places import SYSTEM_STATE_DIR

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


_File = TypeVar("_File", bound=Section)

_SENTENCES = {  # pydantic's own kinds of error; the settings' types bring their sentence along
    **OUT_OF_BOUNDS,
    "too_short": "expected at least one entry in this list",
    "tuple_type": "expected a list, not {given}",
    "mapping_type": "expected a mapping of settings, not {given}",
    "dict_type": "expected a mapping of settings, not {given}",
}


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
) -> Config:
    """The configuration in the file, which ``option`` names. ``environ`` None: what comes from
    outside the files is not asked for. ``none_yet``: a glob of ``policies`` may lead to no file.
    ``tell`` gets the files that were read, also of a bad configuration.
    Raises ConfigError, which names file and key."""
    for _ in range(READINGS):
        outside = Outside(environ, ConfigFiles())
        read: Config | ConfigError
        try:
            text = _read(path, option, outside.files)
            read = _config(text, outside, path.parent, none_yet=none_yet)
        except ConfigError as exc:
            read = ConfigError(exc.message, path=exc.path, file=exc.file or str(path))
        if outside.files.is_unchanged():
            break
        time.sleep(PAUSE_S)
    else:
        read = ConfigError(
            "expected files that belong together, but they keep changing while they are read; try "
            "again once they are written",
            file=str(path),
        )
    tell(outside.files)
    if isinstance(read, ConfigError):
        raise read
    return read


def parse(text: str, environ: Mapping[str, str] | None, base_dir: Path) -> Config:
    """The configuration in a text; files are relative to ``base_dir``.

    Raises ConfigError with the path of the first key that is wrong, or the line and column
    where the text is no YAML.
    """
    return _config(text, Outside(environ, ConfigFiles()), base_dir)


def _config(text: str, outside: Outside, base_dir: Path, *, none_yet: bool = False) -> Config:
    config = _parsed(Config, text, "the sections kafka and topics", outside, base_dir)
    config.add_files(_policy_files(config, outside, base_dir, none_yet=none_yet), base_dir)
    is_said = "state_dir" in config.model_fields_set or config.state_dir == SYSTEM_STATE_DIR
    if not (config.dry_run or is_said):  # a dry_run that is not known is not false
        raise ConfigError(
            "expected a folder where dry_run is false: the default depends on the user (here "
            f"{config.state_dir}), and in another folder no group is remembered",
            path="state_dir",
        )
    return config


def _policy_files(
    config: Config, outside: Outside, base_dir: Path, *, none_yet: bool
) -> tuple[PolicyFile | UnreadableFile, ...]:
    """The files that ``policies`` leads to from ``base_dir``, each once, in the order of their
    names.

    Raises ConfigError for a glob that leads to no file, unless there may be ``none_yet``, and for a
    bad file without a fence, which it names."""
    by_real_path: dict[str, str] = {}  # several names may lead to one file
    fences = config.fences
    for fence in fences.every:
        if is_unknown(fence.file):
            continue
        real_path = outside.files.resolve(base_dir / fence.file)
        if real_path in by_real_path:
            other = fences.of(by_real_path[real_path])
            raise ConfigError(
                f"expected one fence for a file, but {other} is another one; keep one",
                path=f"{fence.place}.file",
            )
        by_real_path[real_path] = fence.file
    missing = [
        each.file
        for each in fences.every
        if (base_dir / each.file).parent.is_dir() and not (base_dir / each.file).exists()
    ]
    for index, pattern in enumerate(config.policies or ()):
        if isinstance(pattern, Fence) or is_unknown(pattern):
            continue
        try:
            names = outside.files.find(pattern, base_dir)
        except ConfigError as exc:
            raise ConfigError(exc.message, path=f"policies[{index}]") from exc
        if not (names or none_yet or any(_would_find(pattern, each) for each in missing)):
            raise ConfigError(
                f"expected a glob that matches a file, but none in {base_dir} matches {pattern}; "
                "plan --unmanaged --write-config FILE writes one to begin with",
                path=f"policies[{index}]",
            )
        for name in names:
            by_real_path.setdefault(outside.files.resolve(base_dir / name), name)
    return tuple(
        _policy_file(name, outside, base_dir, is_fenced=fences.of(name) is not None)
        for name in sorted(by_real_path.values())
    )


def unreadable_files(
    config: Config, files: ConfigFiles, environ: Mapping[str, str] | None = os.environ
) -> tuple[UnreadableFile, ...]:
    """Which fenced files of the configuration in force can't be used now, whatever else is wrong
    with what has taken its place. ``files`` learns what was read."""
    outside = Outside(environ, files)
    read = [
        _policy_file(each.file, outside, config.base_dir, is_fenced=True)
        for each in config.fences.every
    ]
    return work_out_policies(config.defaults, config.topics, read, config.fences).unreadable


def _would_find(pattern: str, name: str) -> bool:
    """Whether the glob leads to a file of this name, if there is one."""
    parts, of_name = os.path.normpath(pattern).split("/"), os.path.normpath(name).split("/")
    return len(parts) == len(of_name) and all(map(fnmatchcase, of_name, parts))


def leads_to(config: Config, base_dir: Path, path: Path) -> bool:
    """Whether ``policies`` leads from ``base_dir`` to the file."""
    found = (
        name
        for each in config.policies or ()
        for name in ([each.file] if isinstance(each, Fence) else find(each, base_dir))
    )
    return any((base_dir / name).resolve() == path.resolve() for name in found)


def _policy_file(
    name: str, outside: Outside, base_dir: Path, *, is_fenced: bool
) -> PolicyFile | UnreadableFile:
    path = base_dir / name
    text = ""
    if not name.isprintable():
        raise ConfigError(f"the name of the policy file {name!a} can't be shown; rename it")
    try:
        text = _read(path, "policies", outside.files)
        return _parsed(PolicyFile, text, "owner and topics", outside, path.parent).named(name)
    except ConfigError as exc:
        error = ConfigError(exc.message, path=exc.path, file=name)
        if not is_fenced:
            raise error from exc
    return UnreadableFile.because_of(error, name, _owner(text))


def _owner(text: str) -> str:
    """As far as a bad file says it; empty where it doesn't."""
    with suppress(ConfigError, PydanticCustomError):
        tree = read_document(text)
        owner = tree.get("owner") if isinstance(tree, dict) else None
        if isinstance(owner, Scalar) and "${" not in owner.text:
            return not_blank(owner)
    return ""


def _parsed(kind: type[_File], text: str, required: str, outside: Outside, base_dir: Path) -> _File:
    tree = read_document(text)
    if tree is None:
        raise ConfigError(f"the file is empty, expected at least {required}")
    tree = substitute(tree, outside, base_dir)
    try:
        return kind.model_validate(tree)
    except ValidationError as exc:
        first = exc.errors()[0]
    # Raised out here, not from exc: what it was made from holds every value, secrets too.
    raise ConfigError(sentence_of(first), path=path_of(first))


def _read(path: Path, option: str, files: ConfigFiles) -> str:
    try:
        return files.read(path).decode("utf-8")
    except (OSError, ValueError) as exc:
        if isinstance(exc, UnicodeDecodeError):
            line = exc.object.count(b"\n", 0, exc.start) + 1
            raise ConfigError(f"line {line}: expected UTF-8 text; save the file as UTF-8") from exc
        reason = getattr(exc, "strerror", None) or "not a path"
        raise ConfigError(
            f"can't read the configuration ({reason}); give the path of a file with {option}"
        ) from exc


def sentence_of(error: ErrorDetails) -> str:
    template = _SENTENCES.get(error["type"], "{msg}")
    return template.format(msg=error["msg"], given=shown(error["input"]), **error.get("ctx", {}))


def path_of(error: ErrorDetails) -> str | None:
    below: tuple[str | int, ...] = error.get("ctx", {}).get("below", ())
    keys = (each for each in error["loc"] if each not in KINDS_OF_POLICY_FILES)
    return dotted((*keys, *below)) or None


EXAMPLE, SCHEMA = "retentiond.yaml", "retentiond.schema.json"
"""A configuration to start from, and its JSON Schema."""


def shipped(name: str) -> str:
    """`EXAMPLE` or `SCHEMA`: beside this file where retentiond is installed, else where they are
    written, in a clone's ``config/``."""
    here = Path(__file__)
    installed = here.with_name(name)
    found = installed if installed.exists() else here.parents[2] / "config" / name
    return found.read_text("utf-8")


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
