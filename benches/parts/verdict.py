"""What a row got, beside what it must be; and the table of it."""

from dataclasses import dataclass, field
from math import isnan, nan as NONE
from statistics import median, quantiles

from results import plain

BATCHES = 5
UNCLEAR = "unclear"
# Times are kept in seconds, all else in the unit that is shown.
UNITS = {"ms": 1e3, "µs": 1e6, "ns": 1e9}


@dataclass
class Outcome:
    """`ours` beside `theirs`, a value a round. Without theirs, the limit is for ours itself."""

    what: str
    who: str
    beside: str
    limit: float | None
    unit: str
    ours: list
    theirs: list = field(default_factory=list)
    at_least: bool = False
    note: str = ""

    def ratio(self):
        """Of the medians; with it, the least and the greatest of five batches of rounds, or of
        the rounds where there are fewer. A single round has none."""
        if not self.theirs:
            return median(self.ours), None
        whole = quotient(self.ours, self.theirs)
        count = min(BATCHES, len(self.ours))
        if count < 2:
            return whole, None
        size = len(self.ours) // count
        batches = [slice(index * size, (index + 1) * size) for index in range(count)]
        ratios = [quotient(self.ours[batch], self.theirs[batch]) for batch in batches]
        # One batch without a quotient leaves no ends.
        return whole, (NONE, NONE) if any(map(isnan, ratios)) else (min(ratios), max(ratios))

    def verdict(self):
        """Yes or no only where no batch says otherwise, and the whole is among the batches: else
        noise decides. What has nothing beside it, a size, has no noise."""
        if self.limit is None:
            return ""
        ratio, spread = self.ratio()
        if spread is None and self.theirs:
            return UNCLEAR
        least, greatest = spread or (ratio, ratio)
        said = {self.is_met(least), self.is_met(greatest)}
        if len(said) > 1 or not least <= ratio <= greatest:
            return UNCLEAR
        return "yes" if said == {True} else "**no**"

    def is_met(self, ratio):
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def cells(self, absolute):
        ratio, spread = self.ratio()
        if self.theirs:
            shown = f"{ratio:.2f}" + (f" ({spread[0]:.2f} to {spread[1]:.2f})" if spread else "")
        else:
            shown = f"{ratio:.3g} {self.unit}"
        must = "" if self.limit is None else f"{'≥' if self.at_least else '≤'} {self.limit:g}"
        if must and not self.theirs:
            must += f" {self.unit}"
        cells = [self.what, self.who, self.beside, must, shown, self.verdict()]
        return cells + ([measured(self.ours, self.unit), measured(self.theirs, self.unit)] if absolute else [])


def quotient(ours, theirs):
    """What was added can be nothing, or less; then there is no quotient."""
    return median(ours) / median(theirs) if median(theirs) > 0 else NONE


def measured(values, unit):
    """The median and the quartiles."""
    if not values:
        return ""
    scaled = [value * UNITS.get(unit, 1) for value in values]
    if len(scaled) < 4:
        return f"{plain(median(scaled))} {unit}"
    low, middle, high = quantiles(scaled, n=4)
    return f"{plain(middle)} {unit} ({plain(low)} to {plain(high)})"


def table(outcomes, absolute):
    columns = ["what", "as", "beside", "must be", "is", "met"] + (["groom-ns", "the other"] if absolute else [])
    rows = [columns, ["---"] * len(columns), *(outcome.cells(absolute) for outcome in outcomes)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def as_data(outcome):
    ratio, spread = outcome.ratio()
    return {**vars(outcome), "ratio": ratio, "spread": spread, "met": outcome.verdict()}
