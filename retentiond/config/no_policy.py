"""Why an enabled topic has no policy: nobody knows how it is to be treated, so it is held."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from retentiond.errors import ConfigError
from retentiond.formatting import listed

if TYPE_CHECKING:
    from retentiond.config.external_reader import ExternalReader

FILE_END = ": "
"""Between a policy file and the entry in it."""


class NoPolicy:
    """``owner``: who is asked about the topic. ``fence``: the file whose fence the topic is in.
    ``dry_run``: whether every entry has it on trial."""

    __slots__ = ()

    owner: str | None
    fence: str | None
    dry_run: bool

    @property
    def sentence(self) -> str:
        raise NotImplementedError

    def excludes(self, reader: str, *, is_external: bool = False) -> bool:
        """Nobody: as long as nobody knows how the topic is to be treated, each reader counts."""
        return False

    def names_external(self, reader: str) -> bool:
        return False

    def required_readers(self) -> tuple[tuple[str, bool], ...]:
        return ()

    @property
    def counts_everybody(self) -> bool:
        return True

    @property
    def who_counts(self) -> Hashable:
        """See `TopicPolicy.who_counts`; unlike that of any of them."""
        return None


@dataclass(frozen=True, slots=True)
class PolicyConflict(NoPolicy):
    """Patterns match the topic that would treat it differently; ``sources`` are their entries, with
    their files. Or it is in several fences (``is_of_fences``), and ``sources`` are these."""

    sources: tuple[str, ...]
    owner: str | None = None
    fence: str | None = None
    dry_run: bool = False
    is_of_fences: bool = False

    @property
    def places(self) -> tuple[str, ...]:
        """The sources in words: beside a team's file, the main file is named too."""
        if not any(FILE_END in source for source in self.sources):
            return self.sources
        return tuple(
            source if FILE_END in source else f"the main file's {source}" for source in self.sources
        )

    @property
    def sentence(self) -> str:
        if self.is_of_fences:
            return f"the topic is in the fences {listed(self.places)}"
        return f"{listed(self.places)} treat the topic differently"


@dataclass(frozen=True, slots=True)
class PolicyUnreadable(NoPolicy):
    """The topic is in the fence of a file that is missing, unreadable or bad. ``problem``: what is
    wrong, with the file's name."""

    fence: str
    problem: str
    owner: str | None = None
    dry_run: bool = False

    @property
    def sentence(self) -> str:
        return f"the policy file of the topic's fence can't be used: {self.problem}"


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A fenced file that can't be used. ``owner``: empty where it can't be read. ``problem``: the
    error in words, with the file's name. ``queries``: the Spark queries that it names, as far as
    its text or what was in force before tells: they read topics of others, too."""

    name: str
    owner: str
    problem: str
    error: ConfigError = field(compare=False)
    queries: tuple[ExternalReader, ...] = ()

    @classmethod
    def because_of(
        cls, error: ConfigError, name: str, owner: str, queries: Iterable[ExternalReader] = ()
    ) -> Self:
        return cls(name, owner, str(error), error, tuple(queries))


def refusal(message: str, place: str) -> ConfigError:
    file, _, path = place.rpartition(FILE_END)
    return ConfigError(message, path=path, file=file or None)
