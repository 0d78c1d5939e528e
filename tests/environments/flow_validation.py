"""Compares the flow solver with known flows at full size.

    python tests/environments/flow_validation.py round --cells=12
    python tests/environments/flow_validation.py half --cells=16

"round" is a round cylinder at Re 100 that blocks 5 % of a channel, for which the literature has a
Strouhal number of 0.16 to 0.175 and a drag coefficient of 1.3 to 1.5. "half" is that of the suite,
at Re 400, which blocks 25 %. Prints Strouhal number, drag and lift over the second half of the
time.
"""

import argparse
import time

import numpy as np

from common.environments.flow_solver import Solver
from common.environments.flow_suite import half_disc

_INTERVAL = 0.1  # between samples of the force


def _round(x, y):
    return 0.5 - np.hypot(x - 10.0, y - 10.0)


CASES = {"round": ((30, 20), 100.0, _round, 140.0), "half": ((8, 4), 400.0, half_disc, 60.0)}
"""Domain in diameters, Re, distance and duration."""


def disturbed(size, cells):
    """Returns velocities of the inflow with a bump, which is where the shedding comes from."""
    nx, ny = (side * cells for side in size)
    x, y = (np.arange(nx) + 0.5)[:, None] / cells, np.arange(ny + 1)[None] / cells
    v = 0.1 * np.sin(np.pi * y / size[1]) * np.exp(-((x - size[0] / 3) ** 2))
    return np.ones((1, nx + 1, ny)), v[None]


def shedding(times, lift):
    """Returns the frequency of the lift, from its rising zero crossings."""
    lift = lift - lift.mean()
    rises = np.flatnonzero((lift[:-1] < 0) & (lift[1:] >= 0))
    crossings = times[rises] - lift[rises] * _INTERVAL / (lift[rises + 1] - lift[rises])
    return (len(crossings) - 1) / np.ptp(crossings)


def main():
    """Runs a case and prints a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--cells", type=int, default=16, help="cells a diameter")
    parser.add_argument("--courant", type=float, default=0.5, help="max|u| dt / h; the paper: 0.1")
    parser.add_argument("--time", type=float, help="duration, in diameters over inflow")
    arguments = parser.parse_args()
    size, reynolds, distance, duration = CASES[arguments.case]
    duration = arguments.time or duration
    cells = tuple(side * arguments.cells for side in size)
    solver = Solver(
        cells, 1 / arguments.cells, 1 / reynolds, 1.0, distance, courant=arguments.courant
    )
    solver.set_velocity(*disturbed(size, arguments.cells))
    started = time.process_time()
    forces = np.concatenate([solver.advance(_INTERVAL) for _ in range(round(duration / _INTERVAL))])
    seconds = time.process_time() - started
    drag, lift = 2 * forces[len(forces) // 2 :].T
    strouhal = shedding(_INTERVAL * np.arange(len(lift)), lift)
    print(
        f"{arguments.case}, {cells[0]} x {cells[1]} cells, Courant {arguments.courant:g}: Strouhal "
        f"{strouhal:.4f}, drag {drag.mean():.3f}, lift rms {lift.std():.3f}, divergence "
        f"{np.abs(solver.divergence()).max():.1e}, {seconds / duration:.2f} CPU s a time unit"
    )


if __name__ == "__main__":
    main()
