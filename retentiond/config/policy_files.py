"""The policy files that ``policies`` leads to, told apart by their names.

A fence keeps whatever is wrong with its file inside: such a file is an `UnreadableFile`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic_core import PydanticCustomError

from retentiond.config.config import Config
from retentiond.config.document import MOST_VALUES, CheckProperties, Outside, Scalar, read_document
from retentiond.config.external_reader import ExternalReader
from retentiond.config.fences import Fence, PlacedFence
from retentiond.config.files import ConfigFiles, find
from retentiond.config.named_queries import named_queries
from retentiond.config.no_policy import UnreadableFile
from retentiond.config.parsing import parsed, read_text
from retentiond.config.policy import work_out_policies
from retentiond.config.rules import PolicyFile, TopicRules
from retentiond.config.values import is_unknown, not_blank
from retentiond.errors import ConfigError, together

MOST_BYTES = 4 << 20
"""Of a team's file."""


def read_policy_files(
    config: Config, outside: Outside, *, none_yet: bool
) -> tuple[PolicyFile | UnreadableFile, ...]:
    """The files that ``policies`` leads to, each once, in the order of their names.

    Raises ConfigError for a glob that leads to no file, unless there may be ``none_yet``, and for
    bad files without a fence, which it names."""
    fenced = _fenced_names(config, outside.base_dir)
    names = _found_by_globs(config, outside, fenced, none_yet=none_yet)
    read = [*_fenced_files(config, outside, fenced, names)]
    errors: list[ConfigError] = []
    for name in names:
        try:
            read.append(_policy_file(name, outside))
        except ConfigError as error:
            errors.append(error)
    if errors:
        unreadable = (file.error for file in read if isinstance(file, UnreadableFile))
        raise together([*errors, *unreadable])
    return tuple(sorted(read, key=lambda file: file.name))


def unreadable_files(
    config: Config, files: ConfigFiles, check_properties: CheckProperties
) -> tuple[UnreadableFile, ...]:
    """Which fenced files of the configuration in force can't be used now, whatever else is wrong
    with what has taken its place. ``files`` learns what was read."""
    outside = Outside(os.environ, files, config.base_dir, check_properties)
    fenced = _fenced_names(config, config.base_dir)
    names: list[str] = []
    with suppress(ConfigError):
        names = _found_by_globs(config, outside, fenced, none_yet=True)
    read = _fenced_files(config, outside, fenced, names)
    worked_out = work_out_policies(
        config.defaults, config.topics, read, config.fences, config.readers
    )
    return worked_out.unreadable


def _fenced_names(config: Config, base_dir: Path) -> list[str]:
    """As the fences have them. Raises ConfigError for two fences of one name."""
    names: dict[str, str] = {}  # by path
    fences = config.fences
    for fence in fences.every:
        if is_unknown(fence.file):
            continue
        first = names.setdefault(os.path.normpath(base_dir / fence.file), fence.file)
        if (other := fences.of(first)) != fence:
            raise ConfigError(
                f"expected one fence for a file, but {other} is another one; keep one",
                path=f"{fence.place}.file",
            )
    return list(names.values())


def _found_by_globs(
    config: Config, outside: Outside, fenced: Sequence[str], *, none_yet: bool
) -> list[str]:
    """The names of the files without a fence. Of several names that lead to one file it is the most
    direct one; a name that is a link to a ``fenced`` one stands for that."""
    files, base_dir = outside.files, outside.base_dir
    fenced_paths = {_direct_path(name, outside) for name in fenced}
    missing = [name for name in fenced if files.is_missing(base_dir / name)]
    by_real_path: dict[str, str] = {}
    for index, pattern in enumerate(config.policies or ()):
        if isinstance(pattern, Fence) or is_unknown(pattern):
            continue
        try:
            names = files.find(pattern, base_dir)
        except ConfigError as exc:
            raise ConfigError(exc.message, path=f"policies[{index}]") from exc
        if not (names or none_yet or any(_would_find(pattern, lost) for lost in missing)):
            raise ConfigError(
                f"expected a glob that matches a file, but none in {base_dir} matches {pattern}; "
                "plan --unmanaged --write-config FILE writes one to begin with",
                path=f"policies[{index}]",
            )
        for name in names:
            place = files.resolve(base_dir / name)
            if fenced_paths.isdisjoint(place.way):
                first = by_real_path.setdefault(place.real_path, name)
                if len(place.way) < len(files.resolve(base_dir / first).way):
                    by_real_path[place.real_path] = name
    return list(by_real_path.values())


def _direct_path(name: str, outside: Outside) -> str:
    """The path of a file by its name, links of the folder of the configuration aside."""
    folder = outside.files.resolve(outside.base_dir).real_path
    return os.path.normpath(os.path.join(folder, name))


def _fenced_files(
    config: Config, outside: Outside, fenced: Sequence[str], unfenced: Sequence[str]
) -> Iterator[PolicyFile | UnreadableFile]:
    """``unfenced``: the names of files without a fence. A fenced file that is a link to another one
    is bad, and must not take its place."""
    files, base_dir, fences = outside.files, outside.base_dir, config.fences
    places = {name: files.resolve(base_dir / name) for name in (*fenced, *unfenced)}
    by_real_path: dict[str, list[str]] = {}
    for name, place in places.items():
        by_real_path.setdefault(place.real_path, []).append(name)
    for name in fenced:
        real_path = places[name].real_path
        path = _direct_path(name, outside)
        others = [
            other
            for other in by_real_path[real_path]
            if other != name and path not in places[other].way
        ]
        if os.path.basename(real_path) != os.path.basename(path):
            others.append(real_path)
        if others:
            error = ConfigError(
                f"expected a file of its own, but this is a link to {others[0]}, a file of another "
                "name; put the policy itself here",
                file=name,
            )
            yield UnreadableFile.because_of(error, name, "")
            continue
        try:
            file = _policy_file(name, outside, fences.of(name))
        except ConfigError as error:
            queries = _queries(base_dir / name, files)
            yield UnreadableFile.because_of(error, name, error.owner, queries)
        else:
            yield file


def _policy_file(name: str, outside: Outside, fence: PlacedFence | None = None) -> PolicyFile:
    """Raises ConfigError, which names the file and, where it can be read, its owner."""
    path, text = outside.base_dir / name, ""
    secrets = outside.base_dir / fence.fence.secrets if fence and fence.fence.secrets else None
    of_team = replace(outside, base_dir=path.parent, is_team=True, secrets=secrets)
    if not name.isprintable():
        raise ConfigError(f"the name of the policy file {name!a} can't be shown; rename it")
    try:
        text = read_text(path, "policies", outside.files, MOST_BYTES)
        file = parsed(PolicyFile, text, "owner and topics", of_team, most_values=MOST_VALUES)
        check_readers((file.defaults, *file.topics), outside)
    except ConfigError as error:
        raise error.in_file(name, _owner(text)) from error
    return file.named(name)


def _owner(text: str) -> str:
    """As far as a bad file says it; empty where it doesn't."""
    with suppress(ConfigError, PydanticCustomError):
        tree = read_document(text, MOST_VALUES)
        owner = tree.get("owner") if isinstance(tree, dict) else None
        if isinstance(owner, Scalar) and "${" not in owner.text:
            return not_blank(owner)
    return ""


def _queries(path: Path, files: ConfigFiles) -> list[ExternalReader]:
    """The Spark queries that a bad file names; none where its text can't be read."""
    with suppress(ConfigError):
        return [*named_queries(read_text(path, "policies", files, MOST_BYTES))]
    return []


def check_readers(sections: Iterable[TopicRules], outside: Outside) -> None:
    for rules in sections:
        for reader in (rules.groups and rules.groups.external) or ():
            if reader.connect_offsets is None or reader.connect_offsets.kafka is None:
                continue
            try:
                outside.check_properties(reader.connect_offsets.kafka)
            except ConfigError as error:
                place = f"external reader {reader.name}: connect_offsets.{error.path}"
                raise ConfigError(error.message, path=place) from error


def _would_find(pattern: str, name: str) -> bool:
    """Whether the glob leads to a file of this name, if there is one."""
    parts, of_name = os.path.normpath(pattern).split("/"), os.path.normpath(name).split("/")
    return len(parts) == len(of_name) and all(map(fnmatchcase, of_name, parts))


def leads_to(config: Config, base_dir: Path, path: Path) -> bool:
    """Whether ``policies`` leads from ``base_dir`` to the file."""
    names = (
        name
        for item in config.policies or ()
        for name in ([item.file] if isinstance(item, Fence) else find(item, base_dir))
    )
    return any((base_dir / name).resolve() == path.resolve() for name in names)
