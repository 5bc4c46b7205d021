"""Settings that are handed on as they are: properties of Kafka's clients and of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, PlainSerializer

from retentiond.config.values import AnyText, BcryptHash, filled, refused


class Properties(Mapping[str, str]):
    """Names and values, in the file's order. A value may be a secret: only ``[name]`` shows it."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Properties({', '.join(f'{name}=…' for name in self)})"


def _named(values: Mapping[str, str]) -> Properties:
    if "" in values:
        raise refused("expected the name of a property, not an empty one")
    return Properties(values)


def _reachable(properties: Properties) -> Properties:
    if not properties.get("bootstrap.servers", "").strip():
        raise refused("expected one broker or more, as in host:9092", "bootstrap.servers")
    return properties


def _users(hashes: Mapping[str, str]) -> Properties:
    if not hashes:
        raise refused("expected one user or more; without this setting everybody is let in")
    for user in hashes:
        if ":" in filled(user):
            raise refused("expected the name of a user, without a colon", user)
    return Properties(hashes)


def _masked(properties: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(properties, "…")


PropertyMap = Annotated[
    Mapping[str, AnyText], AfterValidator(_named), PlainSerializer(_masked, return_type=dict)
]
Users = Annotated[
    Mapping[str, BcryptHash],
    AfterValidator(_users),
    PlainSerializer(_masked, return_type=dict),
    Field(json_schema_extra={"minProperties": 1}),
]
KafkaProperties = Annotated[
    PropertyMap,
    AfterValidator(_reachable),
    Field(
        json_schema_extra={
            "required": ["bootstrap.servers"],
            "properties": {
                "bootstrap.servers": {
                    "description": "The brokers to start from: host:port, separated by commas.",
                    "type": "string",
                    "minLength": 1,
                }
            },
        }
    ),
]
