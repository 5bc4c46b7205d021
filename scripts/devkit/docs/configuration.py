"""``docs/configuration.md``: every key of the configuration file, from its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from retentiond.kafka.settings.logins import AWS_PROPERTIES, OAUTH_PROPERTIES
from retentiond.kafka.settings.properties import CONFLUENT_ONLY, PROPERTIES, USUAL_IN_FLIGHT

HEAD = """# Configuration

The configuration is one YAML file. retentiond reads it strictly: an unknown or duplicate key, a
wrong unit or an invalid regular expression is an error that names the path of the key. YAML's tags,
anchors, aliases and merge keys are errors, too. Policies may be in
[files of their own](policies.md#files-of-teams).

- `retentiond check` says in words what a file means. It connects to nothing.
- `retentiond check --example` prints `config/retentiond.yaml`, which explains every setting.
- `retentiond check --schema` prints the JSON Schema, for editors that complete and check while you
  type.

In values, `${NAME}` is replaced from the environment and `${file:PATH}` from a file. So you need
not write passwords into the configuration.

The daemon reads a changed file when it gets a [SIGHUP](operations.md#signals), or
[by itself](policies.md#changed-files) with `reload.watch`. A changed
`state_dir` or `http` takes effect only after a restart; the log then has
`retentiond.config_needs_restart`.

| key | what it is | default |
| --- | --- | --- |
"""

PROPERTIES_HEAD = """
## Properties of `kafka`

retentiond connects with two clients, librdkafka and kafka-python. Each property must reach both;
otherwise the two could log in as two principals. So retentiond refuses any property that is not
in this table or below it.

| librdkafka's name, for the section `kafka` | kafka-python's name |
| --- | --- |
"""

PROPERTIES_END = """
`max_in_flight` is retentiond's own property: how many requests may wait for one broker's answer at
a time ({in_flight} by default).

Two mechanisms have properties of their own. With them retentiond gets the token itself and hands it
to both clients ([security](security.md#logins)):

- OAUTHBEARER: {oauth}
- AWS_MSK_IAM: {aws}

Two properties reach librdkafka alone, because they don't change what may be seen: {confluent}.
"""


class Key(NamedTuple):
    """One line of the reference. ``default`` is None where there is none, or the text says it."""

    path: str
    about: str
    default: str | None


def page(schema: dict[str, Any]) -> str:
    lines = [
        f"| `{key.path}` | {_cell(key.about)} | {f'`{key.default}`' if key.default else ''} |"
        for key in keys(schema, schema, "")
    ]
    return HEAD + "\n".join(lines) + "\n" + _properties()


def _properties() -> str:
    lines = [f"| `{name}` | `{each.kafka_python}` |" for name, each in PROPERTIES.items()]
    end = PROPERTIES_END.format(
        in_flight=USUAL_IN_FLIGHT,
        oauth=_list(OAUTH_PROPERTIES),
        aws=_list(AWS_PROPERTIES),
        confluent=_list(CONFLUENT_ONLY),
    )
    return PROPERTIES_HEAD + "\n".join(lines) + "\n" + end


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


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


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
