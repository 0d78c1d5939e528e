"""Pure maths of returns and value distributions: no state, no flags."""
