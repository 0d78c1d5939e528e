"""Pure maths of returns, value distributions and losses, without state or flags."""
