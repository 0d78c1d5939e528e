"""Random courses of boxes for parkour: floors with gaps, and obstacles on or above them.

The kinds of obstacles are D4PG's (section 4.3), from Heess et al. 2017 (arXiv 1707.02286). Neither
paper gives their sizes: all numbers are ours. Lengths are in metres.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

DEPTH = 2.0
"""Depth of a gap, and of the drop beside the track."""

_FIRST = 4.0  # where the first obstacle stands
_MARGIN = 6.0  # of floor before the start and after the finish
_FREE_END = 8.0  # before the finish, in which nothing begins
_PLANAR_HALF_WIDTH = 1.0  # more than the walker's; its y is fixed
_NARROWEST = 0.02  # a part of a wall that is narrower is left out


class Box(NamedTuple):
    """A box that is parallel to the axes.

    Attributes:
      center: (x, y, z).
      half: half of the size along x, y and z.
      hovers: whether one can run below it.
    """

    center: tuple[float, float, float]
    half: tuple[float, float, float]
    hovers: bool = False


class Course:
    """Boxes and the heights of their faces.

    A box includes its edges.

    Attributes:
      boxes: all floors and obstacles.
      length: x of the finish; the start is at 0.
    """

    def __init__(self, boxes: list[Box], length: float):
        self.boxes = boxes
        self.length = length
        self._standing = _Faces([box for box in boxes if not box.hovers])
        self._hovering = _Faces([box for box in boxes if box.hovers])

    def top(self, x: np.ndarray) -> np.ndarray:
        """Returns the height of what stands at x, [N] -> [N], whatever y; in a gap -`DEPTH`."""
        faces = self._standing.near(x)
        return np.where(faces.over_x(x), faces.top, -DEPTH).max(axis=1, initial=-DEPTH)

    def underside(self, x: np.ndarray) -> np.ndarray:
        """Returns the underside of what hovers at x, [N] -> [N]; infinity where nothing does."""
        faces = self._hovering.near(x)
        return np.where(faces.over_x(x), faces.bottom, np.inf).min(axis=1, initial=np.inf)

    def top_of_grid(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Returns the height of what stands at each (x, y), [N], [M] -> [N, M]."""
        heights = np.full((len(x), len(y)), -DEPTH)
        faces = self._standing.near(x)
        over_x, over_y = faces.over_x(x), faces.over_y(y)
        for k, top in enumerate(faces.top):
            where = over_x[:, k, np.newaxis] & over_y[:, k]
            np.maximum(heights, top, out=heights, where=where)
        return heights


def planar(generator: np.random.Generator) -> Course:
    """Returns a course of 120 m with gaps, barriers and hovering platforms."""
    kinds = (_gap(0.9), _barrier(0.5), _platform)
    return _course(generator, 120.0, _PLANAR_HALF_WIDTH, kinds, ramp=60.0, free=(3.0, 6.0))


def humanoid(generator: np.random.Generator) -> Course:
    """Returns a course of 100 m x 4 m with gaps, barriers and walls that have an opening."""
    kinds = (_gap(0.7), _barrier(0.4), _wall)
    return _course(generator, 100.0, 2.0, kinds, ramp=50.0, free=(4.0, 7.0))


class _Faces:
    """Faces of boxes in the order of x. Their positions are a model's: centre -+ half size."""

    def __init__(self, boxes: list[Box]):
        boxes = sorted(boxes, key=lambda box: box.center[0])
        center = np.array([box.center for box in boxes]).reshape(-1, 3)
        half = np.array([box.half for box in boxes]).reshape(-1, 3)
        self._low, self._high = center - half, center + half
        self.bottom, self.top = self._low[:, 2], self._high[:, 2]

    def near(self, x: np.ndarray) -> "_Faces":
        """Returns those that x may be over; comparing with all of them would cost more."""
        is_near = (self._low[:, 0] <= x.max()) & (self._high[:, 0] >= x.min())
        faces = _Faces.__new__(_Faces)
        faces._low, faces._high = self._low[is_near], self._high[is_near]
        faces.bottom, faces.top = faces._low[:, 2], faces._high[:, 2]
        return faces

    def over_x(self, x: np.ndarray) -> np.ndarray:
        """Returns which x are over which box, [N] -> bool [N, boxes]."""
        return self._over(x, 0)

    def over_y(self, y: np.ndarray) -> np.ndarray:
        """Returns which y are over which box, [M] -> bool [M, boxes]."""
        return self._over(y, 1)

    def _over(self, positions: np.ndarray, axis: int) -> np.ndarray:
        positions = positions[:, np.newaxis]
        return (positions >= self._low[:, axis]) & (positions <= self._high[:, axis])


class _Obstacle(NamedTuple):
    """An obstacle and the floor's interruption by it.

    Attributes:
      boxes: (x0, x1, y0, y1, z0, z1, hovers) of each, with x from the obstacle's begin.
      length: along x.
      is_gap: whether there is no floor.
    """

    boxes: list[tuple[float, float, float, float, float, float, bool]]
    length: float
    is_gap: bool = False


# (generator, difficulty in [0, 1], half of the track's width) -> an obstacle.
_Kind = Callable[[np.random.Generator, float, float], _Obstacle]


def _gap(growth: float) -> _Kind:
    """Returns the kind of gaps whose largest length grows by `growth`."""

    def make(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
        del half_width
        return _Obstacle([], generator.uniform(0.2, 0.3 + growth * difficulty), is_gap=True)

    return make


def _barrier(growth: float) -> _Kind:
    """Returns the kind of barriers whose largest height grows by `growth`."""

    def make(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
        length = generator.uniform(0.1, 0.4)
        height = generator.uniform(0.05, 0.1 + growth * difficulty)
        return _Obstacle([(0.0, length, -half_width, half_width, 0.0, height, False)], length)

    return make


def _platform(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
    """Returns a platform to run over or, as often, one to run below."""
    length = generator.uniform(1.0, 3.0)
    if generator.random() < 0.5:
        bottom = generator.uniform(0.05, 0.1 + 0.35 * difficulty)
    else:
        bottom = generator.uniform(1.75 - 0.65 * difficulty, 1.85)
    return _Obstacle([(0.0, length, -half_width, half_width, bottom, bottom + 0.1, True)], length)


def _wall(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
    opening = generator.uniform(2.2 - difficulty, 2.4 - difficulty)
    begin = generator.uniform(-half_width, half_width - opening)
    sides = ((-half_width, begin), (begin + opening, half_width))
    boxes = [(0.0, 0.2, y0, y1, 0.0, 2.0, False) for y0, y1 in sides if y1 - y0 > _NARROWEST]
    return _Obstacle(boxes, 0.2)


def _course(
    generator: np.random.Generator,
    length: float,
    half_width: float,
    kinds: tuple[_Kind, ...],
    ramp: float,
    free: tuple[float, float],
) -> Course:
    """Returns a course of uniformly drawn kinds, as difficult as it gets from x = `ramp`."""
    boxes: list[Box] = []

    def add(x0, x1, y0, y1, z0, z1, hovers):
        low, high = np.array([x0, y0, z0]), np.array([x1, y1, z1])
        boxes.append(Box(tuple((low + high) / 2), tuple((high - low) / 2), hovers))

    floor, x = -_MARGIN, _FIRST
    while x < length - _FREE_END:
        kind = kinds[generator.integers(len(kinds))]
        obstacle = kind(generator, min(1.0, x / ramp), half_width)
        for x0, x1, *rest in obstacle.boxes:
            add(x + x0, x + x1, *rest)
        if obstacle.is_gap:
            add(floor, x, -half_width, half_width, -DEPTH, 0.0, False)
            floor = x + obstacle.length
        x += obstacle.length + generator.uniform(*free)
    add(floor, length + _MARGIN, -half_width, half_width, -DEPTH, 0.0, False)
    return Course(boxes, length)
