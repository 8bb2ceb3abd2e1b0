"""A run on the disk and on the screen: its directory, checkpoints, metrics and progress."""
