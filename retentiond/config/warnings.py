"""What is valid, and probably not meant: sentences for `check`, `doctor` and the log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import groupby

from retentiond.background import in_background
from retentiond.config.config import Config
from retentiond.config.fences import Fence
from retentiond.config.files import ANSWER_S, find
from retentiond.config.values import is_unknown
from retentiond.errors import ConfigError
from retentiond.formatting import say_duration, say_names

MOST_NAMED = 3

MOST_BYTES = 64 * 1024
"""Of a file that is looked at because of its name."""

_YAML = re.compile(r"[.#]*(.+?)\.(ya?ml|json)(\W.*)?")
"""The name of a policy file, in whatever case, with whatever comes before and after it."""

_EDITORS = re.compile(r"\..*\.sw.|\.#.*")
"""Names of what an editor keeps while a file is open."""


def passed_over(config: Config) -> tuple[str, ...]:
    """The files in the folders of the globs that look like policy files and are not read."""
    with suppress(NoAnswer, OSError, ConfigError):
        return in_background(lambda: tuple(_passed_over(config)), "passed-over").result(ANSWER_S)
    return ()


def say_passed_over(config: Config) -> tuple[str, ...]:
    return tuple(
        f"{name} looks like a policy file and is not read, because no name under policies leads to "
        "it: nothing that it says counts. Rename it, or move it elsewhere"
        for name in passed_over(config)
    )


def unfenced(config: Config) -> tuple[str, ...]:
    """A sentence about policy files without a fence, once two files have owners."""
    names = [name for name in config.policy_files if config.fences.of(name) is None]
    if not names or len(config.policy_files) < 2:
        return ()
    are = "is" if len(names) == 1 else "are"
    return (
        f"{say_names(names, MOST_NAMED)} {are} in no fence: a mistake there refuses the whole "
        "configuration, for every team. Give each file its fence (policies: [{file: …, topics: "
        "[…]}])",
    )


def default_retention(config: Config) -> tuple[str, ...]:
    """A sentence for each file with entries that enable topics and leave the retention open."""
    sentences: list[str] = []
    entries = (entry for entry in config.entries if entry.policy.enabled and entry.is_by_default)
    for file, group in groupby(entries, lambda entry: entry.file):
        of_file = list(group)
        topics = say_names([entry.topics for entry in of_file], MOST_NAMED)
        retention = say_duration(of_file[0].policy.consumed_retention_ms)
        sentences.append(
            f"{f'{file}: ' if file else ''}{topics}: the consumed retention is the default, "
            f"{retention}, which nobody has set. It frees nothing where a topic's retention.ms is "
            "not longer. Set retention.commitoffset.hours"
        )
    return tuple(sentences)


def _passed_over(config: Config) -> Iterator[str]:
    base_dir = config.base_dir
    real_paths = {os.path.realpath(base_dir / name) for name in config.policy_files}
    for pattern in config.policies or ():
        if isinstance(pattern, Fence) or is_unknown(pattern):
            continue
        above, _, last = pattern.rpartition("/")
        folders = find(above, base_dir) if above else [""]
        if "**" in above:
            folders.append(above.partition("**")[0])
        for folder in folders:
            place = base_dir / folder
            for name in sorted(os.listdir(place)) if place.is_dir() else ():
                path = os.path.join(place, name)
                if os.path.realpath(path) in real_paths or not os.path.isfile(path):
                    continue
                real_paths.add(os.path.realpath(path))
                if _looks_like_a_policy_file(path, name, last):
                    yield os.path.join(folder, name)


def _looks_like_a_policy_file(path: str, name: str, pattern: str) -> bool:
    if _EDITORS.fullmatch(name):
        return False
    with open(path, "rb") as file:
        keys = {
            line.partition(b":")[0].strip(b" \"'{") for line in file.read(MOST_BYTES).split(b"\n")
        }
    if b"kafka" in keys:  # a main file
        return False
    stem = _YAML.fullmatch(name.casefold())
    ending = os.path.splitext(pattern)[1]
    is_named_so = stem and fnmatchcase(f"{stem[1]}{ending}".casefold(), pattern.casefold())
    return bool(is_named_so) or {b"owner", b"topics"} <= keys
