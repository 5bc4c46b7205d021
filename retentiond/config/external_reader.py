"""Readers that keep their position elsewhere than in Kafka: where it is, and how it is read there.

An address is taken as its server gives it. So ``paths`` say where in its answer the offsets are,
in a language of three steps that leaves nothing out silently: what a path leads past is
missing, and a missing position holds. (JMESPath drops a null on its way, and with it a reader.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from retentiond.config.client_properties import KafkaProperties, Properties, PropertyMap
from retentiond.config.values import (
    Duration,
    File,
    LocalFileOrAddress,
    LocalFolder,
    Name,
    Section,
    TopicName,
    default_duration,
    filled,
    is_topic_name,
    is_unknown,
    refused,
)

PATH_STEP = r"\[[^\[\]=]+=[^\[\]]*\]|[^.\[\]]+"
EVERY_KEY = "*"

_PATH = re.compile(rf"({PATH_STEP})(\.({PATH_STEP}))*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]+")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class OffsetsPath:
    """Where in a document the next offsets of a topic are, or of one ``partition``: ``steps`` from
    the top, each a key, `EVERY_KEY`, or ``[key=value]``."""

    topic: str
    partition: int | None
    steps: tuple[str, ...]

    @property
    def has_every(self) -> bool:
        """Whether it leads to all that are there, however many."""
        return EVERY_KEY in self.steps

    def follow(self, document: object) -> list[Any]:
        """All that it leads to. Raises LookupError, with a sentence, where a step leads nowhere."""
        values = [document]
        for step in self.steps:
            values = [below for value in values for below in _below(value, step)]
        return values

    def __str__(self) -> str:
        return ".".join(self.steps)


def _below(value: object, step: str) -> list[Any]:
    match value:
        case dict() if step == EVERY_KEY:
            return list(value.values())
        case list() if step == EVERY_KEY:
            return value
        case dict() if step in value:
            return [value[step]]
        case list() if step.startswith("["):
            key, _, wanted = step[1:-1].partition("=")
            same = [
                item for item in value if isinstance(item, dict) and str(item.get(key)) == wanted
            ]
            if len(same) == 1:
                return same
            raise LookupError(f"{len(same)} entries where {step} has to be one")
    raise LookupError(f"no {step}")


def _paths(value: object) -> tuple[OffsetsPath, ...]:
    if isinstance(value, tuple):
        return value
    if not isinstance(value, Mapping) or not value:
        raise refused("expected a mapping of topics, each with its path")
    paths: list[OffsetsPath] = []
    for topic, of_topic in value.items():
        if not is_topic_name(topic):
            raise refused("expected the name of a topic", topic)
        if not isinstance(of_topic, Mapping):
            paths += _of(of_topic, topic, None, topic)
            continue
        for partition, of_partition in of_topic.items():
            if not _PARTITION.fullmatch(str(partition)):
                raise refused("expected the number of a partition", topic, str(partition))
            paths += _of(of_partition, topic, int(partition), topic, str(partition))
    return tuple(paths)


def _of(value: object, topic: str, partition: int | None, *below: str | int) -> list[OffsetsPath]:
    """The paths of one text, or of a list of texts."""
    if not isinstance(value, list):
        path = filled(value)
        if not _PATH.fullmatch(path):
            raise refused(
                "expected a path: keys, * for every entry, or [key=value] for the one entry of a "
                "list, with dots between them",
                *below,
            )
        return [OffsetsPath(topic, partition, tuple(re.findall(PATH_STEP, path)))]
    if not value:
        raise refused("expected one path or more", *below)
    return [
        path for at, item in enumerate(value) for path in _of(item, topic, partition, *below, at)
    ]


def _headers(headers: Properties) -> Properties:
    """Its errors show nothing of a value."""
    if len({name.casefold() for name in headers}) < len(headers):
        raise refused("expected each header once, whatever its case")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise refused("expected the name of an HTTP header", name)
        if not (is_unknown(value) or _HEADER_VALUE.fullmatch(value)):
            raise refused("expected the value of an HTTP header, on one line", name)
    return headers


_PATH_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
    ]
}
Headers = Annotated[PropertyMap, AfterValidator(_headers)]
Paths = Annotated[
    tuple[OffsetsPath, ...],
    BeforeValidator(_paths),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {
                "anyOf": [
                    *_PATH_SCHEMA["anyOf"],
                    {
                        "type": "object",
                        "propertyNames": {"pattern": f"^({_PARTITION.pattern})$"},
                        "additionalProperties": _PATH_SCHEMA,
                    },
                ]
            },
        }
    ),
]


class ConnectOffsets(Section):
    """The positions of a source connector of Kafka Connect that reads from this cluster: of
    MirrorMaker 2's MirrorSourceConnector."""

    topic: TopicName
    """The topic in which its workers keep offsets (offset.storage.topic). A MirrorMaker 2 of its
    own calls it mm2-offsets.SOURCE.internal."""

    connector: Name
    """The connector's name. A MirrorMaker 2 of its own calls it MirrorSourceConnector."""

    cluster: Name | None = None
    """The alias by which the connector knows this cluster (source.cluster.alias). It is needed only
    if the topic has the connector's positions in several clusters."""

    kafka: KafkaProperties | None = None
    """Client properties of the cluster that has the topic, if it is another one. Nothing is taken
    from the section `kafka`. MirrorMaker 2 keeps the topic in the cluster that it writes to."""


SECRET_LEFT_OUT = "see your configuration"


def _written_paths(paths: Iterable[OffsetsPath]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for path in paths:
        if path.partition is None:
            written.setdefault(path.topic, []).append(str(path))
        else:
            of_topic = written.setdefault(path.topic, {})
            of_topic.setdefault(str(path.partition), []).append(str(path))
    return written


class ExternalReader(Section):
    """A reader that keeps its position outside Kafka's groups, in one of three places."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["spark_checkpoint"]},
                {"required": ["offsets"]},
                {"required": ["connect_offsets"]},
            ]
        }
    )

    name: Name
    """Its name among the topic's groups."""

    spark_checkpoint: LocalFolder | None = None
    """Checkpoint directory of a Spark Structured Streaming query, by its absolute path on this
    host. A checkpoint in an object store or in HDFS must be mounted."""

    offsets: LocalFileOrAddress | None = None
    """A JSON or YAML file, by its absolute path on this host or its http(s) address:
    {topic: {partition: next offset}}, unless `paths` say where in it the offsets are."""

    headers: Headers = Field(default_factory=lambda: Properties({}))
    """Headers of the request to the address, as in `Authorization: ${file:token}`. They are
    never shown, and a redirect to another host drops them."""

    ca: File | None = None
    """PEM file of the authorities that alone may sign the address's certificate. It is read each
    time. By default the system's authorities count."""

    paths: Paths | None = None
    """Where the next offsets are in the file or the answer: a path for each topic, or for each of
    its partitions. The page on external readers explains paths."""

    connect_offsets: ConnectOffsets | None = None
    """Positions of a source connector of Kafka Connect, in its offsets topic."""

    max_age_ms: Duration = default_duration("max_age", "1d")
    """How old the position may be. While it is older, the topic is held. Not for `connect_offsets`,
    which are always current."""

    def written(self) -> dict[str, Any]:
        """As a file has it, with `SECRET_LEFT_OUT` in place of what may be a secret: a reader
        without it can't be read, and holds."""
        entry = self.model_dump(
            by_alias=True,
            exclude_unset=True,
            mode="json",
            exclude={"headers", "paths", "connect_offsets"},
        )
        if self.headers:
            entry["headers"] = dict.fromkeys(self.headers, SECRET_LEFT_OUT)
        if self.paths:
            entry["paths"] = _written_paths(self.paths)
        if (place := self.connect_offsets) is not None:
            entry["connect_offsets"] = {"topic": place.topic, "connector": place.connector}
            if place.cluster is not None:
                entry["connect_offsets"]["cluster"] = place.cluster
            if place.kafka is not None:
                servers = "bootstrap.servers"
                entry["connect_offsets"]["kafka"] = {servers: place.kafka[servers]}
        return entry

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        places = (self.spark_checkpoint, self.offsets, self.connect_offsets)
        count = sum(place is not None for place in places)
        if count != 1:
            raise refused(
                "expected one of spark_checkpoint, offsets and connect_offsets, here are "
                f"{count or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _what_belongs_together(self) -> Self:
        place = self.offsets or ""
        for name, fits, where in (
            ("headers", place.startswith(("http://", "https://")), "offsets at an address"),
            ("ca", place.startswith("https://"), "offsets at an https:// address"),
            ("paths", bool(place), "offsets"),
            ("max_age", self.connect_offsets is None, "spark_checkpoint or offsets"),
        ):
            said = {name, f"{name}_ms"} & self.model_fields_set
            if said and not (fits or is_unknown(self.offsets)):
                raise refused(f"this goes with {where} only", name)
        return self
