"""Linear relations between vectors of rational numbers."""

from fractions import Fraction

MOST_FREE = 3  # relations beyond which subsets are too many to try


def positive_relation(vectors: list[list[Fraction]]) -> bool:
    """Whether some of the vectors add up to 0 with positive weights.

    A set with one linear relation shows it by the signs; where there are more, each vector is left out in turn.
    """
    signs, relations = _solve(vectors)
    if relations <= 1:
        return relations == 1 and signs
    smaller = (vectors[:i] + vectors[i + 1 :] for i in range(len(vectors)))
    return relations <= MOST_FREE and any(positive_relation(subset) for subset in smaller)


def _solve(vectors: list[list[Fraction]]) -> tuple[bool, int]:
    """Whether the first relation has positive weights alone, and how many relations there are."""
    rows = [list(column) for column in zip(*vectors, strict=True)]  # one equation a coordinate
    pivots: list[int] = []
    for column in range(len(vectors)):
        at = next((r for r in range(len(pivots), len(rows)) if rows[r][column]), None)
        if at is None:
            continue
        rows[len(pivots)], rows[at] = rows[at], rows[len(pivots)]
        _eliminate(rows, len(pivots), column)
        pivots.append(column)
    free = [column for column in range(len(vectors)) if column not in pivots]
    return bool(free) and all(rows[r][free[0]] <= 0 for r in range(len(pivots))), len(free)


def _eliminate(rows: list[list[Fraction]], pivot: int, column: int) -> None:
    """Make the pivot 1 and the rest of its column 0."""
    lead = rows[pivot][column]
    rows[pivot] = [x / lead for x in rows[pivot]]
    for r, row in enumerate(rows):
        if r != pivot and row[column]:
            factor = row[column]
            rows[r] = [x - factor * y for x, y in zip(row, rows[pivot], strict=True)]
