"""How many cells are one task: so many that starting it is little work beside them, and none is waited for long."""

from collections import deque
from math import ceil

from hardmax.scale.manifest import Interval

SECONDS = 3.0  # of work in a task
MOST_TASKS = 10_000  # for the scheduler, of a whole sweep
GROWTH = 4  # times the largest task so far: the first ones also load libraries
REMEMBERED = 8  # tasks from which the speed is known: cells of one kind lie together


class Chunks:
    """Intervals of cells, cut as their speed is known better; those that were asked for before stay as they were."""

    def __init__(self, asked: list[Interval], free: list[Interval], cells: int) -> None:
        self.asked, self.free = deque(asked), deque(free)
        self.workers = 1  # how many there are now
        self.least, self.largest = ceil(cells / MOST_TASKS), 0
        self.recent: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)

    def measured(self, cells: int, seconds: float) -> None:
        """Note how long a task took."""
        self.largest = max(self.largest, cells)
        self.recent.append((cells, seconds))

    def next(self) -> Interval | None:
        """The cells of the next task; None when all were given out."""
        if self.asked:
            return self.asked.popleft()
        if not self.free:
            return None
        size = self._size()
        start, stop = self.free.popleft()
        cut = min(start + size, stop)
        if cut < stop:
            self.free.appendleft((cut, stop))
        return start, cut

    def _size(self) -> int:
        if not self.recent:
            return self.least
        seconds = sum(each for _, each in self.recent) / sum(cells for cells, _ in self.recent)
        enough = SECONDS / max(seconds, 1e-6)
        left = sum(stop - start for start, stop in self.free)
        share = max(left / (2 * self.workers), enough / 10)  # smaller ones at the end, so that no worker is waited for
        return max(self.least, int(min(enough, GROWTH * self.largest, share)))
