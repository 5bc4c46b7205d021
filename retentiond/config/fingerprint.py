"""Whether two processes have the same configuration in force, without a word about its values.

What counts is what the files mean, not where they stand or how they are written: all settings, with
secrets, the policies of teams' files, and which of these can't be used. Another version of
retentiond may understand the same files otherwise, so it never has the same.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from retentiond import __version__
from retentiond.config.config import Config


def fingerprint(config: Config) -> bytes:
    """It stays in this process: whoever has it could try guesses at a secret (see `proof`)."""
    of_files = (config.entries, config.policy_files, config.unreadable)
    written = json.dumps(_plain((__version__, config, *of_files)), sort_keys=True)
    return hashlib.sha256(written.encode(errors="surrogatepass")).digest()


def proof(of: bytes, key: str) -> str:
    """Shows whoever has the same fingerprint that one has it, too. ``key``: a new one each time."""
    return hmac.new(of, key.encode(), "sha256").hexdigest()


def _plain(value: Any) -> Any:
    """As JSON has it, and the same in every process."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value):  # what its `repr` leaves out is worked out from the rest
        shown = (field.name for field in fields(value) if field.repr)
        return {name: _plain(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_plain(item), sort_keys=True) for item in value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, PurePath):  # a relative one is of this process's folder
        return os.path.abspath(value)
    return value if isinstance(value, int | float | None) else str(value)
