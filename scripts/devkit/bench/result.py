"""What was measured, and what was hoped for; kept as JSON, and one measurement beside another."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[3] / "bench" / "results"


@dataclass(frozen=True, slots=True)
class Result:
    """A figure. ``at_most`` is the target, in the same unit; for a count, what is right."""

    what: str
    value: float
    unit: str
    at_most: float | None = None

    @property
    def kept(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def is_for_people(self) -> bool:
        """Whether it is told on the page; requests by their kind are only kept."""
        return "requests, " not in self.what

    def shown(self, value: float) -> str:
        match self.unit:
            case "s" | "x":
                return f"{value:.2f} {self.unit}"
            case "%":
                return f"{value:.1f} %"
            case "":
                return f"{value:,.0f}"
            case unit:
                return f"{value:,.0f} {unit}"

    def cells(self) -> tuple[str, str, str]:
        """What, the figure, the target."""
        target = "" if self.at_most is None else f"≤ {self.shown(self.at_most)}"
        if self.kept is False:
            target += " missed"
        return self.what, self.shown(self.value), target


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one run. ``machine``: date, cores and versions, by name."""

    machine: Mapping[str, str]
    results: Sequence[Result]

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        document = {"machine": dict(self.machine), "results": list(map(asdict, self.results))}
        file.write_text(json.dumps(document, indent=2) + "\n")

    @classmethod
    def read(cls, file: Path) -> "Measurement":
        """Raises ValueError for a file that isn't one."""
        try:
            document = json.loads(file.read_text())
            return cls(document["machine"], [Result(**each) for each in document["results"]])
        except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{file} holds no results of scripts/bench ({error!r})") from error
