"""What is said of disks: when one is nearly full."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, WithJsonSchema, model_validator

from retentiond.config.document import shown
from retentiond.config.values import Section, filled, or_null, reads, refused, writes

WRITTEN = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")


def _percent(value: object) -> float:
    if isinstance(value, float):
        return value
    written = WRITTEN.fullmatch(filled(value).strip())
    percent = float(written[1]) if written else 0.0
    if not 0 < percent < 100:
        raise refused(f"expected a part of the disk between 0% and 100%, not {shown(value)}")
    return percent


def say_percent(percent: float) -> str:
    return f"{percent:.6g}%"


Percent = Annotated[
    float,
    reads(_percent),
    writes(say_percent),
    WithJsonSchema({"type": "string", "pattern": rf"^{WRITTEN.pattern}$|\$\{{"}),
]


class DiskPressure(Section):
    """When a log directory is under pressure. Consumed records of a topic with a pressure retention
    (`retention.commitoffset.pressure.*`) then go sooner there, as far as is needed."""

    below_free: Percent
    """The part of a disk, as in 20%. A log directory with less usable space is under pressure."""

    until_free: Percent
    """It stays under pressure until it has this much usable space again, as in 25%: `below_free` or
    more."""

    @model_validator(mode="after")
    def _ends_above_its_beginning(self) -> Self:
        if self.until_free < self.below_free:
            raise refused(
                f"expected below_free ({say_percent(self.below_free)}) or more, "
                f"not {say_percent(self.until_free)}",
                "until_free",
            )
        return self


DiskPressureOrNull = Annotated[DiskPressure | None, BeforeValidator(or_null(lambda value: value))]
