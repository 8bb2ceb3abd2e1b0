"""Training in memory: one run on the host, or many as one program on a device."""
