"""docs/notebook.ipynb runs, here with fewer updates, and shows what it drew."""

import json
import pathlib

import matplotlib
import numpy as np
import pytest

CELLS = json.loads((pathlib.Path(__file__).parents[2] / "docs/notebook.ipynb").read_text())["cells"]


def test_it_trains_and_draws(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    matplotlib.use("Agg")
    code = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code")
    variables = {}
    assert code.count("agent.train(4_000)") == 1
    exec(code.replace("agent.train(4_000)", "agent.train(1_000)"), variables)
    assert len(variables["rows"]) >= 3  # evaluations: at the start, half-way, at the end
    assert len(variables["observations"]) >= 8 and np.isfinite(variables["angle"]).all()
    assert all(variables["figure"].axes[0].lines)


def test_the_pictures_of_a_run_are_in_it():
    shown = [output for cell in CELLS for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
    assert not any(output["output_type"] == "error" for output in shown)
