"""Acting: policies, exploration, adders, the acting loop, and evaluation."""
