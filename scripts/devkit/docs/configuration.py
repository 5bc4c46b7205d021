"""The tables of ``docs/configuration.md``: every key of the file, from its JSON Schema, and every
property of Kafka's clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from devkit.docs.tables import code, with_rows
from retentiond.kafka.settings.logins import AWS_PROPERTIES, OAUTH_PROPERTIES
from retentiond.kafka.settings.properties import (
    ADDRESS_FAMILY,
    CONFLUENT_ONLY,
    PROPERTIES,
    USUAL_IN_FLIGHT,
)


class Key(NamedTuple):
    """One line of the reference. ``default`` is None where there is none, or the text says it."""

    path: str
    about: str
    default: str | None


def page(text: str, schema: dict[str, Any]) -> str:
    """``text``: of the page as it is."""
    found = keys(schema, schema, "")
    rows = (
        (f"`{key.path}`", key.about, f"`{key.default}`" if key.default else "") for key in found
    )
    text = with_rows(text, "key | what it is | default", rows)
    both = ((f"`{name}`", f"`{each.kafka_python}`") for name, each in PROPERTIES.items())
    text = with_rows(text, "librdkafka's name, for the section `kafka` | kafka-python's name", both)
    further = (
        (
            "`max_in_flight`",
            "retentiond itself: how many requests may wait for one broker's answer at a time "
            f"({USUAL_IN_FLIGHT} by default)",
        ),
        (code(OAUTH_PROPERTIES), "the mechanism OAUTHBEARER"),
        (code(AWS_PROPERTIES), "the mechanism AWS_MSK_IAM"),
        (
            code([ADDRESS_FAMILY]),
            "both clients: which addresses of a name count, `any`, `v4` or `v6`",
        ),
        (code(CONFLUENT_ONLY), "librdkafka alone: it doesn't change what may be seen"),
    )
    return with_rows(text, "further properties | what takes them", further)


def keys(schema: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[Key]:
    """The keys below a node of the schema, depth first, in the order of the file.

    What every entry of ``topics`` may say, ``defaults`` may say too: it is explained once.
    """
    for name, found in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        about = found.get("description", "")
        inner = _resolved(schema, found)
        listed = next((each for each in inner.get("anyOf", ()) if "items" in each), inner)
        items = _resolved(schema, listed.get("items", {}))
        yield Key(here, about, _default(found, inner))
        if here == "defaults":
            continue
        yield from keys(schema, inner, here)
        yield from keys(schema, items, f"{here}[]")


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    several = (*node.get("anyOf", ()), *node.get("oneOf", ()))
    (of_other,) = [each for each in several if "$ref" in each] or [node]
    reference = of_other.get("$ref")
    if reference is None:
        return node
    found: dict[str, Any] = schema["$defs"][reference.rsplit("/", 1)[-1]]
    return found


def _default(*nodes: dict[str, Any]) -> str | None:
    for node in nodes:
        value = node.get("default")
        if value is not None:
            return str(value).lower() if isinstance(value, bool) else str(value)
    return None
