"""Density of points by a sketch of counts: `Density`.

Source: include/hashattn/density.h. SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any, Literal, Union, overload

import numpy as np
import numpy.typing as npt

from . import _library
from .arrays import seed_of, whole_number
from .context import Context, ContextHandle, ContextObject, ObjectHandle
from .errors import InvalidError, InvalidTypeError
from .options import path_of

Floats = npt.NDArray[np.float32]


def _points(name: str, given: Any, width: int | None = None) -> Floats:
    """(n, d) numbers as adjacent float32; numbers beyond float32 become infinity, which the library refuses."""
    if isinstance(given, np.ma.MaskedArray):
        raise InvalidTypeError(f"{name} is a masked array; what its mask hides would take part. Give the rows without masked "
                               f"numbers, or {name}.filled(...)")
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} is no array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InvalidTypeError(f"{name} has dtype {array.dtype} and shape {array.shape}; numbers are needed")
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidError(f"{name} has shape {array.shape}; (rows, columns) is needed")
    if width is not None and array.shape[1] != width:
        raise InvalidError(f"{name} has {array.shape[1]} columns, the sketch has {width}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, np.float32)


class Density(ContextObject):
    """How dense rows are around a point, from one pass over any number of rows, in constant memory.

    score(q) estimates (1/n) sum_j (1 - angle(q, x_j)/pi)^hash_bits over the n rows x_j, without bias over seeds: between
    0 and 1, larger is denser.

        densities = Density(seed=1).fit(X).score(X)

    num_hashes: 1 to 4096 tables; the squared error is proportional to 1 / num_hashes. hash_bits: 1 to 24; more bits see
    less of the surroundings of a point. map: "none" = rows are directions, and no statistics of the data are used;
    "euclidean" = rows are points, centred, each column scaled by its deviation, with one more coordinate for the length;
    the first 4,096 rows determine centre and scale. seed: 0 to 2^64 - 1.

    Rows are (n, d) arrays of numbers; float64 is rounded to float32. InvalidError (a ValueError): another shape or width,
    NaN or infinity, with its position; an option is out of range, once rows are added. Nothing changes then.
    """

    def __init__(self, num_hashes: int = 32, hash_bits: int = 9, map: str = "none", seed: int = 0, *,
                 context: Context | None = None) -> None:
        super().__init__(context)
        if not isinstance(map, str):
            raise InvalidTypeError(f"map is {map!r}; a name is needed")
        self.num_hashes = whole_number("num_hashes", num_hashes, 2**32)
        self.hash_bits = whole_number("hash_bits", hash_bits, 2**32)
        self.map, self.seed = map, seed_of(seed)
        self._width: int | None = None  #: None: no rows were added

    @classmethod
    def load(cls, path: Any, *, context: Context | None = None) -> "Density":
        """A sketch from a file of `save` or the tool. BadFileError (an OSError): it is no sketch, or damaged."""
        self, encoded, made = cls(context=context), path_of("path", path), ctypes.c_void_p()
        with self._context._use() as origin:
            origin.check(_library.functions().density_load(origin.pointer, encoded, byref(made)))
            self._own(origin, made)
            info = self._describe()
        self.num_hashes, self.hash_bits, self.seed = info.num_hashes, info.hash_bits, info.seed
        self.map = _library.text(info.map)
        return self

    def _own(self, origin: ContextHandle, made: ctypes.c_void_p) -> None:
        self._release()
        self._handle = ObjectHandle(origin, made.value or 0, _library.functions().density_free)
        self._width = int(self._describe().dim)

    def _describe(self) -> _library.DensityInfo:
        info = _library.DensityInfo()
        assert self._handle is not None
        _library.functions().density_describe(self._handle.pointer, byref(info))
        return info

    def _make(self, width: int) -> None:
        options = _library.DensityOptions(num_hashes=self.num_hashes, hash_bits=self.hash_bits, map=self.map.encode(),
                                          seed=self.seed)
        made = ctypes.c_void_p()
        with self._context._use() as origin:
            origin.check(_library.functions().density_new(origin.pointer, width, byref(options), byref(made)))
            self._own(origin, made)

    def _check_filled(self) -> None:
        if self._width is None:
            raise InvalidError("the sketch has no rows")

    @property
    def rows(self) -> int:
        """The number of rows that it counts."""
        if self._width is None:
            return 0
        with self._use():
            return int(self._describe().rows)

    def fit(self, X: Any, y: Any = None) -> "Density":
        """Counts these rows, and none that were added before. y is ignored."""
        points = _points("X", X)
        fresh = Density(self.num_hashes, self.hash_bits, self.map, self.seed, context=self._context).add(points)
        with self._context._use():
            self._release()
            self._handle, fresh._handle = fresh._handle, None
            self._width = fresh._width
        return self

    def add(self, X: Any) -> "Density":
        """Adds rows, in any order and any number of calls."""
        points = _points("X", X, self._width)
        if self._width is None:
            self._make(points.shape[1])
        with self._use() as handle:
            handle.origin.check(_library.functions().density_add(handle.pointer, points.ctypes.data, len(points)))
        return self

    def remove(self, X: Any) -> "Density":
        """Takes rows away that were added. InvalidError: one of them was certainly never added."""
        self._check_filled()
        points = _points("X", X, self._width)
        with self._use() as handle:
            handle.origin.check(_library.functions().density_remove(handle.pointer, points.ctypes.data, len(points)))
        return self

    def merge(self, other: "Density") -> "Density":
        """Adds all rows of another sketch. InvalidError: columns, options, seed or Euclidean maps differ."""
        if not isinstance(other, Density):
            raise InvalidTypeError(f"other is a {type(other).__name__}; a Density is needed")
        if other._context is not self._context:
            raise InvalidError("the sketches are of different contexts; save one and load it in the other's")
        other._check_filled()
        if self._width is None:
            self._make(other._width or 0)
        with self._use() as handle:
            if other._handle is None:
                raise InvalidError("the Density is closed")
            handle.origin.check(_library.functions().density_merge(handle.pointer, other._handle.pointer))
        return self

    def like(self) -> "Density":
        """An empty sketch with the options of this one, and its Euclidean map: the two can be merged."""
        empty = Density(self.num_hashes, self.hash_bits, self.map, self.seed, context=self._context)
        if self._width is not None:
            made = ctypes.c_void_p()
            with self._use() as handle:
                handle.origin.check(_library.functions().density_new_like(handle.pointer, byref(made)))
                empty._own(handle.origin, made)
        return empty

    @overload
    def score(self, X: Any, *, errors: Literal[False] = False) -> Floats: ...

    @overload
    def score(self, X: Any, *, errors: Literal[True]) -> tuple[Floats, Floats]: ...

    def score(self, X: Any, *, errors: bool = False) -> Union[Floats, tuple[Floats, Floats]]:
        """The density (n,) of each row of X, larger is denser; with errors=True also their standard errors (n,).

        The standard error is that of the mean over the hashes, NaN if there is one.
        """
        self._check_filled()
        points = _points("X", X, self._width)
        densities, deviations = np.empty(len(points), np.float32), np.empty(len(points), np.float32)
        with self._use() as handle:
            handle.origin.check(_library.functions().density_score(
                handle.pointer, points.ctypes.data, len(points), densities.ctypes.data,
                deviations.ctypes.data if errors else None))
        return (densities, deviations) if errors else densities

    def gradient(self, points: Any, rows: Any, *, of_density: Any = None,
                 logarithm: bool = False) -> tuple[Floats, Floats, Floats]:
        """Densities (n,) of points among `rows`, and the gradients of sum(of_density * density) by points and by rows.

        The rows are given, because a sketch has only their counts; options, seed and Euclidean map are those of the
        sketch. of_density: (n,), None = all 1. Gradients of densities are unbiased over seeds. logarithm: of the
        logarithms of the densities; a point of density 0 adds nothing.
        """
        self._check_filled()
        at, among = _points("points", points, self._width), _points("rows", rows, self._width)
        try:
            weights = None if of_density is None else np.ascontiguousarray(of_density, np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"of_density is no array: {error}") from None
        if weights is not None and weights.shape != (len(at),):
            raise InvalidError(f"of_density has shape {weights.shape}; ({len(at)},) is needed")
        densities, dpoints, drows = np.empty(len(at), np.float32), np.empty_like(at), np.empty_like(among)
        with self._use() as handle:
            handle.origin.check(_library.functions().density_gradient(
                handle.pointer, at.ctypes.data, len(at), among.ctypes.data, len(among),
                None if weights is None else weights.ctypes.data, bool(logarithm), densities.ctypes.data,
                dpoints.ctypes.data, drows.ctypes.data))
        return densities, dpoints, drows

    def shift(self, points: Any, rows: Any, *, steps: int = 1) -> Floats:
        """Points after steps of mean shift: each moves to the mean direction of the rows that collide with it.

        With the map "none" they become unit vectors. Each step has hashes of its own.
        """
        self._check_filled()
        moved: Floats = _points("points", points, self._width).copy()
        among = _points("rows", rows, self._width)
        for step in range(whole_number("steps", steps, 10**9)):
            with self._use() as handle:
                handle.origin.check(_library.functions().density_shift(
                    handle.pointer, moved.ctypes.data, len(moved), among.ctypes.data, len(among), step + 1))
        return moved

    def modes(self, rows: Any, *, steps: int = 30) -> tuple[Floats, npt.NDArray[np.intp]]:
        """The modes (k, d) that mean shift from every row leads to, most rows first, and the mode (n,) of each row.

        Rows that end at less than 90 / hash_bits degrees from the first row of a mode belong to it.
        """
        self._check_filled()
        among = _points("rows", rows, self._width)
        found, labels, count = np.empty_like(among), np.empty(len(among), np.uintp), ctypes.c_size_t()
        with self._use() as handle:
            handle.origin.check(_library.functions().density_modes(
                handle.pointer, among.ctypes.data, len(among), whole_number("steps", steps, 10**9), found.ctypes.data,
                labels.ctypes.data, byref(count)))
        return found[:count.value].copy(), labels.astype(np.intp)

    def save(self, path: Any) -> None:
        """Writes the sketch to a file, which is replaced atomically; the tool reads it too."""
        self._check_filled()
        encoded = path_of("path", path)
        with self._use() as handle:
            handle.origin.check(_library.functions().density_save(handle.pointer, encoded))

    def __repr__(self) -> str:
        return (f"<hashattn.Density rows={0 if self._handle is None else self.rows} num_hashes={self.num_hashes} "
                f"hash_bits={self.hash_bits} map={self.map!r} seed={self.seed}>")
