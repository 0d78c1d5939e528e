"""From observations to transitions: policies, exploration, adders, the acting loop, evaluation."""
