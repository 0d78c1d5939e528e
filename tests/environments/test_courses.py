"""Tests of common.environments.parkour_suite."""

import numpy as np
import pytest

from common.environments import parkour_suite


@pytest.mark.parametrize(
    "make, start, free",
    [(parkour_suite.planar_course, 60.0, 3), (parkour_suite.humanoid_course, 50, 4)],
)
def test_courses_grow_more_difficult_and_are_never_the_same(make, start, free):
    generator = np.random.default_rng(0)
    made = [make(generator) for _ in range(30)]
    assert made[0].boxes != made[1].boxes
    early, late = [], []
    for course in made:
        floors = [box for box in course.boxes if box.center[2] == -parkour_suite.DEPTH / 2]
        edges = [(box.center[0] - box.half[0], box.center[0] + box.half[0]) for box in floors]
        assert (edges[0][0], edges[-1][1]) == pytest.approx((-6, course.length + 6))
        for (_, begin), (end, _) in zip(edges[:-1], edges[1:], strict=True):
            largest = 1.2 if make is parkour_suite.planar_course else 1.0
            assert begin >= 4 - 1e-9 and 0.2 - 1e-9 <= end - begin <= largest
            (late if begin > start else early).append(end - begin)
        xs = sorted({box.center[0] - box.half[0] for box in course.boxes if box not in floors})
        assert all(second - first > free for first, second in zip(xs[:-1], xs[1:], strict=True))
    assert np.mean(late) > np.mean(early) + 0.1


def test_planar_obstacles_have_the_sizes_of_their_kind():
    generator = np.random.default_rng(1)
    boxes = [box for _ in range(40) for box in parkour_suite.planar_course(generator).boxes]
    barriers = [box for box in boxes if not box.hovers and box.center[2] > 0]
    platforms = [box for box in boxes if box.hovers]
    assert min(len(barriers), len(platforms)) > 100
    for box in barriers:
        assert box.center[2] == pytest.approx(box.half[2])
        assert 0.05 <= 2 * box.half[2] <= 0.6 and 0.05 - 1e-9 <= box.half[0] <= 0.2 + 1e-9
    undersides = np.array([box.center[2] - box.half[2] for box in platforms])
    over = undersides < 0.5
    assert np.all((undersides[over] >= 0.05) & (undersides[over] <= 0.45))
    assert np.all((undersides[~over] >= 1.1 - 1e-9) & (undersides[~over] <= 1.85))
    assert 0.4 < over.mean() < 0.6
    assert all(box.half[2] == pytest.approx(0.05) for box in platforms)


def test_walls_have_an_opening_within_the_track():
    generator = np.random.default_rng(2)
    walls: dict[tuple[int, float], list[parkour_suite.Box]] = {}
    for number in range(20):
        for box in parkour_suite.humanoid_course(generator).boxes:
            if box.half[2] == 1.0 and box.center[2] == 1.0:
                walls.setdefault((number, box.center[0]), []).append(box)
    assert len(walls) > 50
    for (_, x), boxes in walls.items():
        difficulty = min(1.0, (x - 0.1) / 50)
        opening = 4.0 - sum(2 * box.half[1] for box in boxes)
        assert 2.2 - difficulty - 1e-6 <= opening <= 2.4 - difficulty + 0.02
        sides = {round(float(np.sign(box.center[1])), 1) for box in boxes}
        assert len(sides) == len(boxes)  # one at either side
