"""Acts with the file policy.npz that `binaries.evaluate --export=DIR` writes; needs NumPy alone.

python docs/read_policy.py DIR/policy.npz 1 0 0 0 0     # the action at this observation
"""

import sys

import numpy as np


def layer_norm(x, scale, offset):
    """Layer normalisation (Ba et al. 2016), as Sonnet has it."""
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-5) * scale + offset


LAYERS = {
    "linear": lambda x, w, b=0.0: x @ w + b,
    "layer_norm": layer_norm,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "unit_norm": lambda x: x / np.sqrt(np.maximum(np.sum(x * x, -1, keepdims=True), 1e-12)),
    "standardize": lambda x, mean, unit: (x - mean) / unit,
    "clip": lambda x, bound: np.clip(x, -bound, bound),
    "argmax": lambda x: x.argmax(axis=-1),
}


def read_policy(path):
    """Returns a function from observations [D] or [K, D] to actions, as spaces.json says."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    layers = [
        (LAYERS[name], [arrays[f"{i}_{j}"] for j in range(arrays["counts"][i])])
        for i, name in enumerate(arrays["layers"])
    ]

    def policy(observation):
        for function, parameters in layers:
            observation = function(observation, *parameters)
        return observation

    return policy


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    print(*np.atleast_1d(read_policy(sys.argv[1])(np.array(sys.argv[2:], np.float32))))
