"""What every section of the file shares: frozen, and no key that it doesn't know."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from retentiond.config.phrases import listed, shown
from retentiond.config.values import refused


class Section(BaseModel):
    """A mapping of settings. The docstring below a field is its description in the schema."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # a value may be a secret
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            raise refused(f"expected a mapping of settings, not {shown(settings)}")
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in settings:
            if key not in known:
                raise refused(_unknown(key, known), key)
        return settings


def _unknown(key: str, known: list[str]) -> str:
    group = key.rpartition(".")[0]
    siblings = [name for name in known if group and name.rpartition(".")[0] == group]
    close = siblings or difflib.get_close_matches(key, known)
    if close:
        return f"unknown setting, did you mean {listed(close, 'or')}?"
    return f"unknown setting, expected {listed(known, 'or')}"
