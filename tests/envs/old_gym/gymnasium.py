"""There is no Gymnasium beside an old gym."""

raise ImportError("there is none", name="gymnasium")
