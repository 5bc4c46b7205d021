"""What was measured, and what was hoped for."""

from dataclasses import dataclass


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

    def shown(self, value: float) -> str:
        match self.unit:
            case "s" | "x":
                return f"{value:.2f} {self.unit}"
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
