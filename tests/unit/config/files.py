"""The files that the tests of the configuration read, and how a schema sees them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from retentiond.config import Config, TopicPolicy, parse
from retentiond.config.document import Scalar, Tree, read_document

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "config"

DEMO_ENVIRON = {
    "RETENTIOND_DEMO_BOOTSTRAP": "localhost:19092",
    "RETENTIOND_DEMO_STATE": "/tmp/retentiond-demo",
    "RETENTIOND_DEMO_PORT": "19477",
}

MINIMAL = "kafka: {bootstrap.servers: localhost:9092}\n"
HASH = "$2b$04$kLHKmAMIIJhUHr31EVdNQuLcDfth36MBOaAUe.YkgWY.kxd2c.Gj."
"""bcrypt's, of ``open sesame``, at the least cost that there is."""

ONE_TOPIC = "topics: [{name: orders}]\n"


def parsed(text: str, environ: dict[str, str] | None = None, base_dir: Path = HERE) -> Config:
    return parse(text, environ or {}, base_dir)


def policy_of(config: Config, topic: str = "orders") -> TopicPolicy:
    policy = config.policy_for(topic)
    assert isinstance(policy, TopicPolicy)
    return policy


def written(folder: Path, main: str, **teams: str) -> Path:
    """A configuration with this beside the broker, and these texts in ``policies.d``, by name."""
    (folder / "policies.d").mkdir(parents=True, exist_ok=True)
    for name, text in teams.items():
        (folder / "policies.d" / f"{name}.yaml").write_text(text)
    path = folder / "retentiond.yaml"
    path.write_text(MINIMAL + main)
    return path


class Malformed(NamedTuple):
    """``schema``: whether a JSON Schema accepts it, refuses it, or can't see it."""

    name: str
    schema: str
    error: str
    text: str


def _malformed() -> Iterator[Malformed]:
    """The cases of ``malformed/*.txt``: each has a heading, its error, and its text.

    Those in document.txt are whole files. Of the others, a text that begins at the margin is a file
    beside the broker, and beside a topic where it names none. An indented one belongs to the one
    topic, or to its external readers, where it would stand in a whole file.
    """
    topic = "topics:\n  - name: orders\n"
    for file in sorted((HERE / "malformed").glob("*.txt")):
        for case in file.read_text("utf-8").split("=== ")[1:]:
            heading, error, text = case.split("\n", 2)
            name, _, schema = heading.partition("; schema: ")
            if text.startswith(" " * 8):
                text = f"{MINIMAL}{topic}    groups:\n      external:\n{text}"
            elif text.startswith(" "):
                text = MINIMAL + topic + text
            elif file.stem != "document":
                text = MINIMAL + text + ("" if "topics:" in text else topic)
            yield Malformed(name, schema, error, text)


MALFORMED = tuple(_malformed())


def as_json(text: str) -> Any:
    """The file as a JSON value, in YAML 1.2's reading: what a schema is held against."""
    return _value(read_document(text))


def _value(tree: Tree | None) -> Any:
    match tree:
        case dict():
            return {key: _value(value) for key, value in tree.items()}
        case list():
            return [_value(value) for value in tree]
        case Scalar(text=text, plain=True) if not tree.is_null:
            try:
                return json.loads(text)  # true, false and numbers are written alike
            except json.JSONDecodeError:
                return text
        case Scalar(text=text, plain=False):
            return text
    return None


class ConfigMap:
    """Kubernetes' volume: its files are links by way of ``..data``, which is replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._version = 0

    def put(self, files: dict[str, str]) -> None:
        self._version += 1
        data, new = self._folder / "..data", self._folder / "..data_tmp"
        version = self._folder / f"..{self._version}"
        version.mkdir(parents=True)
        for name, text in files.items():
            (version / name).write_text(text)
            if not (self._folder / name).is_symlink():
                (self._folder / name).symlink_to(f"..data/{name}")
        before = os.path.realpath(data)
        new.symlink_to(version.name)
        new.replace(data)
        for old in Path(before).glob("*") if before != str(data) else ():
            old.unlink()
        for link in self._folder.glob("*.yaml"):
            if not link.exists():
                link.unlink()
