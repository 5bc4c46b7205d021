"""What disk costs, in any currency, as people write it: ``0.08 USD``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import WithJsonSchema

from retentiond.config.values import filled, is_null, reads, refused, writes

PRICE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) ([^\s0-9][^\s]{0,15})")

MONTH_DAYS = 365.25 / 12

EXPECTED_PRICE = "expected an amount and a currency, as in 0.08 USD"


@dataclass(frozen=True, slots=True)
class Price:
    """``currency``: as it was written; empty where nobody said which."""

    amount: float
    currency: str = ""

    def __str__(self) -> str:
        return f"{self.amount:.12g} {self.currency}".rstrip()

    def of_gib_days(self, gib_days: float) -> str:
        """Of so many, at this price for a GiB and month."""
        return self.of(gib_days / MONTH_DAYS)

    def of(self, count: float) -> str:
        """What so many cost, in words."""
        cost = self.amount * count
        said = f"{cost:,.2f} {self.currency}".rstrip()
        return said if round(cost, 2) or not cost else f"less than 0.01 {self.currency}".rstrip()


def parse_price(text: str) -> Price | None:
    """None: it is none."""
    found = PRICE.fullmatch(text.strip())
    return None if found is None else Price(float(found[1]), found[2])


def _price_or_null(value: object) -> Price | None:
    if isinstance(value, Price):
        return value
    if is_null(value):
        return None
    price = parse_price(filled(value))
    if price is None:
        raise refused(EXPECTED_PRICE)
    return price


PriceOrNull = Annotated[
    Annotated[
        Price,
        writes(str),
        WithJsonSchema({"type": "string", "pattern": rf"^{PRICE.pattern}$|\$\{{"}),
    ]
    | None,
    reads(_price_or_null),
]
