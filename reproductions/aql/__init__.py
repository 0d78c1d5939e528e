"""AQL: amortized Q-learning in enormous action spaces."""
