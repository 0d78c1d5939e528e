"""Drawing: pages, panels, bars and colours."""
