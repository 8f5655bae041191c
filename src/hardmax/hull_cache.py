"""`HullCache`: exact hard attention on two-dimensional keys that arrive one after
another, a cache for decoding.
"""

import math
import threading
import zipfile
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from hardmax import _validation
from hardmax._display import count
from hardmax._errors import InputError, ParameterError
from hardmax._exact import check_subnormals, to_fractions
from hardmax._files import check_ending, written_whole
from hardmax._types import AnyArray, Array, BoolArray, FloatArray, IntArray
from hardmax.exact.argmax import Metric, Points, exact_sets
from hardmax.search.dispatch import Search, has_numba
from hardmax.sets import Sets

if TYPE_CHECKING:
    from hardmax.search.hull_heads import Heads

TIES = ("mean", "latest", "first")
RANGE = (
    2.0**400
)  # sizes of coordinates, and of their inverses, for which compiled comparisons are exact
MAX_MEAN = 2.0**960  # size of values whose sum over 2^63 keys is finite
MIN_ROOM = 64  # keys
WORK = 1000.0  # multiplications that take as long as a key or a query
NOTHING = np.empty(0, np.intp)
Given = ParamSpec("Given")
Result = TypeVar("Result")


def _whole_or_not_at_all(
    method: Callable[Concatenate["HullCache", Given], Result],
) -> Callable[Concatenate["HullCache", Given], Result]:
    """Run a method alone, and restore the cache where it raises an exception.

    The heads are set again only when the method has returned: after an exception, also
    one from a signal, compiled code may have changed a part of them, or may still run
    in other threads. The next call computes new ones from the keys.
    """

    @wraps(method)
    def run(self: "HullCache", *given: Given.args, **options: Given.kwargs) -> Result:
        with self._lock:
            parts = self._parts
            count = len(parts)
            before = self._leading, self._is_exact, self._length
            try:
                result = method(self, *given, **options)
            except BaseException:
                self._heads = None
                self._leading, self._is_exact, self._length = before
                del parts[count:]
                self._parts = parts
                raise
            return result

    return run


class HullCache:
    """Keys in the plane and their values, appended one after another, for exact hard
    attention.

    o = mean of v_j over j in C,   C = argmax_j <q, k_j> over all keys so far.

    A maximum lies on the convex hull of the keys. For h vertices and t different keys
    that tie, an append takes O(log h), amortized, and a query O(log h + t). C is that
    of real arithmetic, as in `hardmax_attention(causal=True)`: comparisons that floats
    leave open are repeated exactly. Equal keys, and keys on one edge of the hull, tie.
    Without numba, and once a key or value is a number that float64 cannot hold or a key
    is beyond 2^-400 and 2^400 in size, NumPy computes all products, and rational
    arithmetic those that are close. The same holds for a query with such numbers, for
    itself alone, and for means of values beyond 2^960. A call that raises an error, or
    is interrupted, changes nothing. Calls of several threads run one after another.

    Parameters
    ----------
    ties : {"mean", "latest", "first"}
        The output for a set with several members: the mean of their values, the value
        that was appended last, or the first.

    Examples
    --------
    >>> import hardmax as hm
    >>> cache = hm.HullCache()
    >>> cache.append([[0, 0], [2, 0], [0, 2]], [[1], [2], [4]])
    >>> cache.query([[1, 0], [1, 1]])
    array([[2.],
           [3.]])
    >>> cache.sets([[1, 1]])[0]
    array([1, 2])
    >>> cache
    HullCache(ties='mean'): 3 keys
    """

    def __init__(self, *, ties: str = "mean") -> None:
        if ties not in TIES:
            raise ParameterError(
                "ties", f"be one of {', '.join(map(repr, TIES))}", repr(ties)
            )
        self.ties = ties
        self._leading: tuple[int, ...] | None = None  # axes of heads
        self._heads: Heads | None = None
        self._is_exact = not has_numba()  # by the reference
        self._parts: list[
            tuple[AnyArray, AnyArray]
        ] = []  # keys (heads, m, 2) and values (heads, m, dv)
        self._length = 0
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs: its heads are computed again."""
        with self._lock:
            return self.__dict__ | {
                "_parts": list(self._parts),
                "_heads": None,
                "_lock": None,
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        heads = (
            f" in each of {count(math.prod(self._leading), 'head')}"
            if self._leading
            else ""
        )
        return f"HullCache(ties={self.ties!r}): {count(len(self), 'key')}{heads}"

    @_whole_or_not_at_all
    def append(self, keys: Array, values: Array) -> None:
        """Append keys and their values.

        Parameters
        ----------
        keys : (..., m, 2) array or tensor
            Floats, integers or Fractions. Leading axes are heads, the same in all
            calls.
        values : (..., m, dv) array or tensor
            One row for each key.
        """
        K, V, self._leading = self._check(keys, values)
        self._step(K, V, K[:, :0])

    @_whole_or_not_at_all
    def query(self, queries: Array) -> Array:
        """Return the outputs of queries.

        Parameters
        ----------
        queries : (..., n, 2) array or tensor
            With the same leading axes as the keys.

        Returns
        -------
        (..., n, dv) array or tensor
            float64, or Fractions where float64 cannot hold the values; for a tensor,
            one of the type of `queries`.
        """
        Q = self._check_queries(queries, self._leading or ())
        return self._attend(*self._nothing, Q, queries)

    @_whole_or_not_at_all
    def attend(self, queries: Array, keys: Array, values: Array) -> Array:
        """Append each key, and answer the query of the same index: causal attention,
        after the keys so far.

        Parameters
        ----------
        queries, keys : (..., m, 2) array or tensor
            As in `query` and `append`.
        values : (..., m, dv) array or tensor
            As in `append`.

        Returns
        -------
        (..., m, dv) array or tensor
            As from `query`.
        """
        K, V, leading = self._check(keys, values)
        Q, seen = (
            self._check_queries(queries, leading, K),
            len(self) + 1 + np.arange(K.shape[1]),
        )
        self._leading = leading
        return self._attend(K, V, Q, queries, seen)

    @_whole_or_not_at_all
    def sets(self, queries: Array) -> Sets:
        """Return C of each query, as indices of keys in the order of their arrival;
        head after head.

        Parameters
        ----------
        queries : (..., n, 2) array or tensor
            As in `query`.
        """
        Q = self._check_queries(queries, self._leading or ())
        if self._is_exact:
            return self._exact_sets(Q)
        (floats, odd), (heads, n) = _split(Q), Q.shape[:2]
        starts = np.zeros(heads * n + 1, np.intp)
        self._step(*self._nothing, floats, starts)
        starts = np.cumsum(starts)
        members = np.empty(starts[-1], np.intp)
        self._step(*self._nothing, floats, starts, members)
        return Sets(starts, members).replace(
            (np.arange(heads)[:, None] * n + odd).ravel(), self._exact_sets(Q[:, odd])
        )

    def evict(self, number: int) -> None:
        """Refuse to drop the first keys: the keys that they hide would have to come
        back to the hull.
        """
        advice = "Append the keys that stay to a new cache."
        raise InputError(
            "A HullCache must keep its keys, as they hide others. Got"
            f" `evict({number!r})`. {advice}"
        )

    @_whole_or_not_at_all
    def save(self, path: str | PathLike[str]) -> None:
        """Write keys and values to a file that ends in .npz, for `HullCache.load`; an
        older one is replaced.
        """
        check_ending(path, (".npz",))
        K, V = (
            self._history()
            if self._parts
            else (np.empty((0, 0, 2)), np.empty((0, 0, 0)))
        )
        keys, values = (x.astype(str) if x.dtype == object else x for x in (K, V))
        leading = np.array([-1] if self._leading is None else self._leading, np.intp)
        with written_whole(path) as temporary:
            np.savez(
                temporary,
                ties=np.array(self.ties),
                leading=leading,
                keys=keys,
                values=values,
            )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "HullCache":
        """Read a cache that `save` wrote."""
        check_ending(path, (".npz",))
        try:
            with np.load(path, allow_pickle=False) as file:
                cache, leading = (
                    cls(ties=str(file["ties"])),
                    tuple(file["leading"].tolist()),
                )
                if leading != (-1,):
                    arrays = (file[name] for name in ("keys", "values"))
                    arrays = (
                        np.vectorize(Fraction, otypes=[object])(x)
                        if x.dtype.kind == "U"
                        else x
                        for x in arrays
                    )
                    cache.append(*(x.reshape(*leading, *x.shape[1:]) for x in arrays))
        except (KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
            must = "`path` must be a whole file that `HullCache.save` wrote."
            raise InputError(f"{must} Got {str(path)!r}, which is not.") from None
        return cache

    @property
    def _dv(self) -> int:
        return int(self._parts[0][1].shape[2])

    @property
    def _nothing(self) -> tuple[AnyArray, AnyArray]:
        """No keys and values."""
        return tuple(x[:, :0] for x in self._parts[0])  # type: ignore[return-value]

    def _history(self) -> tuple[AnyArray, AnyArray]:
        """Return all keys (heads, n, 2) and values (heads, n, dv): floats, or Fractions
        alone.
        """
        if len(self._parts) > 1:
            K, V = (
                np.concatenate(arrays, axis=1)
                for arrays in zip(*self._parts, strict=True)
            )
            K, V = (to_fractions(x) if x.dtype == object else x for x in (K, V))
            self._parts = [(K, V)]
        return self._parts[0]

    def _step(
        self,
        K: AnyArray,
        V: AnyArray,
        Q: AnyArray,
        starts: IntArray = NOTHING,
        members: IntArray = NOTHING,
    ) -> AnyArray:
        """Append checked keys and values, and return outputs of queries, unless these
        are left to the reference.
        """
        self._is_exact |= V.dtype == object or not _fits(K).all()
        if self.ties == "mean" and not self._is_exact:
            self._is_exact = bool((np.abs(V) > MAX_MEAN).any())
        out = np.empty((*Q.shape[:2], V.shape[2]))
        if not self._is_exact:
            heads = self._heads
            self._heads = None  # until this step is done
            if heads is None or len(self) + K.shape[1] > heads.keys.shape[1]:
                heads = self._grow(heads, K, V)
            self._compute(heads, K, V, Q, out, starts, members)
            self._heads = heads
        if K.shape[1] or not self._parts:
            self._parts.append((K, V))
            self._length += K.shape[1]
        return out

    def _grow(self, heads: "Heads | None", K: AnyArray, V: AnyArray) -> "Heads":
        """Return heads of the keys so far, with room for K, and for twice as many as
        before.
        """
        from hardmax.search.hull_heads import new_heads

        room = max(len(self) + K.shape[1], MIN_ROOM)
        if heads is not None:
            room = max(room, 2 * heads.keys.shape[1])
        larger = new_heads(len(K), room, V.shape[2])
        if self._parts:
            self._compute(
                larger, *self._history(), K[:, :0], V[:, :0], NOTHING, NOTHING
            )
        return larger

    def _compute(self, heads: "Heads", *arrays: AnyArray) -> None:
        from hardmax.search.hull_heads import step
        from hardmax.search.threads import share

        rule, number = TIES.index(self.ties), len(arrays[0])
        work = WORK * number * (arrays[0].shape[1] + arrays[2].shape[1])
        share(
            lambda some: step(
                some, heads, rule, *(np.ascontiguousarray(x) for x in arrays)
            ),
            number,
            work,
        )

    def _attend(
        self,
        K: AnyArray,
        V: AnyArray,
        Q: AnyArray,
        queries: Array,
        seen: IntArray | None = None,
    ) -> Array:
        """Append checked keys and values, and return the outputs of the checked queries
        Q, as `queries` are.
        """
        floats, odd = _split(Q)
        out = self._step(K, V, floats)
        some = (
            np.arange(Q.shape[1]) if self._is_exact else odd
        )  # which the reference answers
        if len(some):
            means = self._means(
                self._exact_sets(Q[:, some], None if seen is None else seen[some]),
                len(some),
            )
            out = out.astype(means.dtype)
            out[:, some] = means
        out = (
            out.astype(np.float64, copy=False)
            if _validation.is_tensor(queries)
            else out
        )
        return _validation.like(
            out.reshape(*(self._leading or ()), *out.shape[1:]), queries
        )

    def _exact_sets(self, Q: AnyArray, seen: IntArray | None = None) -> Sets:
        """Return the sets by the reference: all products, in rational arithmetic where
        floats leave them open.
        """
        if not Q.size:
            return Sets.of([])
        heads, metric = zip(Q, self._history()[0], strict=True), Metric.of(None)
        parts = [
            exact_sets(Points.of(q), Points.of(k), metric, Search("numpy"), seen)[0]
            for q, k in heads
        ]
        return Sets.of([members for sets in parts for members in sets])

    def _means(self, sets: Sets, n: int) -> AnyArray:
        """Return the outputs (heads, n, dv) of sets."""
        values = self._history()[1]
        place = {"mean": slice(None), "latest": slice(-1, None), "first": slice(1)}[
            self.ties
        ]
        rows = [values[i // n][members[place]] for i, members in enumerate(sets)]
        means = [_mean(row) for row in rows]
        return np.array(means).reshape(len(values), n, self._dv)

    def _check(
        self, keys: Array, values: Array
    ) -> tuple[AnyArray, AnyArray, tuple[int, ...]]:
        """Return keys (heads, m, 2), values (heads, m, dv), and the axes of heads."""
        K, V = _numbers(keys, "keys"), _numbers(values, "values")
        leading = K.shape[:-2] if self._leading is None else self._leading
        if K.ndim < 2 or K.shape[-1] != 2 or K.shape[:-2] != leading:
            axes = (
                "..., "
                if self._leading is None
                else "".join(f"{size}, " for size in self._leading)
            )
            raise ParameterError("keys", f"have shape ({axes}m, 2)", f"shape {K.shape}")
        if (
            V.ndim != K.ndim
            or V.shape[:-1] != K.shape[:-1]
            or (self._parts and V.shape[-1] != self._dv)
        ):
            axes = "".join(f"{size}, " for size in K.shape[:-1])
            dv = self._dv if self._parts else "dv"
            raise ParameterError(
                "values", f"have shape ({axes}{dv})", f"shape {V.shape}"
            )
        heads = math.prod(leading)
        return K.reshape(heads, *K.shape[-2:]), V.reshape(heads, *V.shape[-2:]), leading

    def _check_queries(
        self, queries: Array, leading: tuple[int, ...], keys: AnyArray | None = None
    ) -> AnyArray:
        """Return queries (heads, n, 2)."""
        if keys is None and not self._length:
            raise InputError(
                "A query needs at least one key. Got none: call `append` first."
            )
        Q = _numbers(queries, "queries")
        n = "n" if keys is None else keys.shape[1]
        if (
            Q.ndim < 2
            or Q.shape[:-2] != leading
            or Q.shape[-1] != 2
            or n not in ("n", Q.shape[-2])
        ):
            raise ParameterError(
                "queries",
                f"have shape ({', '.join(map(str, (*leading, n, 2)))})",
                f"shape {Q.shape}",
            )
        return Q.reshape(math.prod(leading), *Q.shape[-2:])


def _numbers(given: Array, name: str) -> AnyArray:
    """Return a copy as float64, or as Fractions where float64 could not hold the
    numbers.
    """
    check_subnormals()
    array = _validation.exact_numbers(
        _validation.as_array(given, name, "have rows of equal length"), name
    )
    return array if array.dtype == object else np.array(array, np.float64, order="C")


def _mean(rows: AnyArray) -> AnyArray:
    """Return the mean of rows, also where the sum of floats would overflow."""
    if rows.dtype == object:
        return np.asarray(rows.sum(axis=0) / Fraction(len(rows)))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.sum(axis=0) / len(rows)
    large = ~np.isfinite(mean)
    if large.any():
        halvings = len(rows).bit_length()
        halves = np.ldexp(rows[:, large], -halvings)
        mean[large] = np.ldexp(halves.sum(axis=0) / len(rows), halvings)
    return np.asarray(mean)


def _fits(array: AnyArray) -> BoolArray:
    """Return which numbers compiled comparisons accept."""
    floats = array.astype(np.float64, copy=False)
    sizes = np.abs(floats)
    return np.asarray(
        (floats == array) & (sizes <= RANGE) & ((sizes >= 1 / RANGE) | (sizes == 0))
    )


def _split(Q: AnyArray) -> tuple[FloatArray, IntArray]:
    """Return queries for compiled comparisons, and the indices at which some query does
    not fit and is replaced.
    """
    fits, floats = _fits(Q), Q.astype(np.float64)
    odd = NOTHING if fits.all() else np.flatnonzero(~fits.all(axis=(0, 2)))
    floats[:, odd] = 1.0
    return floats, odd
