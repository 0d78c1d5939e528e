"""docs/notebook.ipynb runs, here with fewer updates."""

import json
import pathlib

import matplotlib
from matplotlib import pyplot
import numpy as np

CELLS = json.loads((pathlib.Path(__file__).parents[2] / "docs/notebook.ipynb").read_text())["cells"]


def test_it_trains_and_draws(monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    code = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code")
    variables = {}
    assert code.count("agent.train(4_000)") == 1
    exec(code.replace("agent.train(4_000)", "agent.train(1_000)"), variables)
    assert len(variables["rows"]) >= 3  # evaluations: at the start, half-way, at the end
    assert len(variables["observations"]) >= 8 and np.isfinite(variables["angle"]).all()
    assert len(variables["figure"].axes[0].lines) == 2  # the last picture: cart and pole
