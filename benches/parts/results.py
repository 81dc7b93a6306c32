"""Numbers of interleaved rounds, and the table of their medians and ratios."""

from collections import defaultdict
from statistics import median

OURS = "groom-ns"


class Results:
    """What each proxy got in each round, a list a row."""

    def __init__(self):
        self.rows = defaultdict(lambda: defaultdict(list))
        self.ratio_of = {}

    def add(self, row, name, value, ratio=None):
        """`ratio` makes a comparison out of two proxies' rounds; without it there is none."""
        self.rows[row][name].append(value)
        self.ratio_of[row] = ratio

    def greatest_median(self, ending):
        """Of all rows whose name ends so."""
        found = [rounds for row, values in self.rows.items() if row.endswith(ending) for rounds in values.values()]
        return max(map(median, found), default=0)

    def table(self, names, absolute):
        others = [name for name in names if name != OURS] if OURS in names else []
        columns = ["", *(names if absolute else []), *(f"{OURS} / {other}" for other in others)]
        lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
        for row, values in self.rows.items():
            ratio = self.ratio_of[row]
            if not ratio and not absolute:
                continue
            cells = [shown(values[name]) for name in names] if absolute else []
            cells += [ratio(values[OURS], values[other]) if ratio else "" for other in others]
            lines.append("| " + " | ".join([row, *cells]) + " |")
        return "\n".join(lines)


def shown(values):
    """The median, and half of what the rounds lie apart."""
    spread = f" ±{plain((max(values) - min(values)) / 2)}" if len(values) > 1 else ""
    return plain(median(values)) + spread


def plain(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def by_round(ours, theirs):
    """The median of the rounds' ratios, since what ran side by side saw the same machine."""
    ratios = [one / other for one, other in zip(ours, theirs) if other > 0]
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "–"


def of_medians(ours, theirs):
    """For differences, which can be near nothing, or below it, in any one round."""
    one, other = median(ours), median(theirs)
    return f"{one / other:.2f}" if one > 0 and other > 0 else "–"
