"""Acting: policies, exploration, and the acting loop."""
