"""Where the numbers of a call lie in its two arrays of int32: what is found, kept for the gradient, and the rest."""

from typing import NamedTuple


def up(count: int) -> int:
    """The next multiple of 4: 16 bytes."""
    return -(-count // 4) * 4


class Found(NamedTuple):
    """A record of each cloud: (n,) lowest member of C_i, -1 for none; (n,) |C_i|; (n,) bits of the lanes that hold C_i.

    And (n,) the two tiles that hold it, as `gpu_decide.places` reads them, -1 for all. Where copies are looked for also
    how the keys are (`gpu_keys.PLAIN` and so on); (m,) how often the lowest of equal keys is there; (m,) where its
    copies begin in the last (m,), which lists keys so that copies are neighbours.
    """

    n: int
    m: int
    copies: bool

    @property
    def record(self) -> int:
        """Numbers of a cloud."""
        return 4 * up(self.n) + (4 + 3 * up(self.m) if self.copies else 0)

    @property
    def rows(self) -> tuple[int, int, int, int]:
        """Where lowest members, sizes, lanes and tiles begin, in bytes."""
        return 0, 4 * up(self.n), 8 * up(self.n), 12 * up(self.n)

    @property
    def keys(self) -> tuple[int, int, int, int]:
        """Where the flag, copies, starts and members begin, in bytes."""
        begin, step = 16 * up(self.n), 4 * up(self.m)
        return begin, begin + 16, begin + 16 + step, begin + 16 + 2 * step


def offsets(*counts: int) -> tuple[list[int], int]:
    """Where arrays of so many 4-byte numbers begin in one, in bytes, and how many numbers that has."""
    begins, total = [], 0
    for count in counts:
        begins.append(4 * total)
        total += up(count)
    return begins, total
