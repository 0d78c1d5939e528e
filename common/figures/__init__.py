"""Pages of figures: panels, bars and colours."""
