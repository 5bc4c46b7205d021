"""Texts and documents for the property tests of the configuration."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

# The environment holds nothing, and no generated text names a file outside the tests' folder.
_SNIPPETS = st.sampled_from(
    [
        *("[", "]", "{", "}", "- ", ": ", ":", "?", ",", "|", ">", "'", '"', "#", "%", "---\n"),
        *("&a ", "*a", "<<: ", "!!x ", "${", "${X}", "$${", "\n", "  ", "\t", "\x00"),
        *("null", "true", "yes", "0", "-1", "kafka", "topics", "name"),
    ]
)
TEXTS = st.lists(_SNIPPETS | st.text(alphabet=st.characters(exclude_characters="/")), max_size=30)
_NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(
    lambda name: name not in {".", ".."}
)
_PRINTABLE = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), max_size=20
)
_FILLED = _PRINTABLE.filter(bool)
_MASTERS = st.one_of(
    st.just("local[2]"), st.builds("{}{}".format, st.sampled_from(["spark://", "sc://"]), _FILLED)
)
_GROUPS = st.fixed_dictionaries(
    {},
    optional={
        "required": st.lists(_FILLED.map(lambda group: f"r{group}r"), max_size=3),
        "exclude": st.lists(st.from_regex(r"x[a-z]{0,5}(\.\*)?", fullmatch=True), max_size=3),
        "min": st.integers(1, 2**63 - 1),
    },
)
_RULES: dict[str, st.SearchStrategy[Any]] = {
    "retention.commitoffset.enable": st.booleans(),
    "retention.commitoffset.hours": st.integers(0, (2**63 - 1) // 3_600_000),
    "retention.commitoffset.minutes": st.integers(0, (2**63 - 1) // 60_000),
    "retention.commitoffset.ms": st.integers(0, 2**63 - 1),
    "groups": _GROUPS,
    "allow_compacted": st.booleans(),
}
_LIMIT = st.none() | st.integers(1, 2**63 - 1)
DOCUMENTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "kafka": st.dictionaries(_FILLED, _PRINTABLE, max_size=3).map(
            lambda properties: properties | {"bootstrap.servers": "localhost:9092"}
        ),
        "topics": st.lists(
            st.fixed_dictionaries({"name": _NAMES}, optional=_RULES)
            | st.fixed_dictionaries({"pattern": _NAMES}, optional=_RULES),
            min_size=1,
            max_size=4,
            unique_by=lambda entry: entry.get("name", entry.get("pattern")),
        ),
    },
    optional={
        "schedule": st.fixed_dictionaries(
            {}, optional={"interval": st.integers(1, 86_400).map(lambda s: f"{s}s")}
        ),
        "dry_run": st.booleans(),
        "state_dir": _FILLED.filter(lambda folder: not set(folder) & set("%[]^|\\")),
        "http": st.fixed_dictionaries(
            {},
            optional={
                "host": st.sampled_from(["0.0.0.0", "::", "localhost", "bücher.example", "a.b."]),
                "port": st.integers(0, 65_535),
            },
        ),
        "metrics": st.fixed_dictionaries(
            {}, optional={"cluster": st.none() | _FILLED, "partitions": st.booleans()}
        ),
        "spark": st.fixed_dictionaries(
            {}, optional={"master": _MASTERS, "conf": st.dictionaries(_FILLED, _PRINTABLE)}
        ),
        "limits": st.fixed_dictionaries(
            {},
            optional={
                "records_per_cycle": _LIMIT,
                "partitions_per_cycle": _LIMIT,
                "settle_cycles": st.integers(1, 2**63 - 1),
                "worthwhile": st.fixed_dictionaries(
                    {}, optional={"bytes": st.just("2MiB"), "after": st.just("30m")}
                ),
            },
        ),
        "defaults": st.fixed_dictionaries({}, optional=_RULES),
    },
)
