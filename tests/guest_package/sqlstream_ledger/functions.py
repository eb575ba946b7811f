"""Functions of money."""

from __future__ import annotations

from sqlstream import AggregateFunction, udaf, udf


@udf(result_type="BIGINT", input_types=["DECIMAL(18, 2) NOT NULL"])
def cents(amount: object) -> int:
    """An amount as a whole number of its hundredth parts."""
    return int(amount * 100)  # type: ignore[operator]


class Spread(AggregateFunction[list, int]):  # type: ignore[type-arg]
    """The largest value less the smallest."""

    accumulator_type = "ROW<least BIGINT, largest BIGINT>"
    result_type = "BIGINT"
    input_types = ("BIGINT",)

    def create_accumulator(self) -> dict[str, int | None]:  # type: ignore[override]
        return {"least": None, "largest": None}

    def accumulate(self, accumulator: dict, value: int | None) -> dict:  # type: ignore[override, type-arg]
        if value is not None:
            least, largest = accumulator["least"], accumulator["largest"]
            accumulator["least"] = value if least is None else min(least, value)
            accumulator["largest"] = value if largest is None else max(largest, value)
        return accumulator

    def get_value(self, accumulator: dict) -> int | None:  # type: ignore[override, type-arg]
        return None if accumulator["least"] is None else accumulator["largest"] - accumulator["least"]


spread = udaf(Spread())
