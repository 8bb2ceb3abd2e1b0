"""The exceptions for what a user can cause and mend."""


class UsageError(ValueError):
    """Bad input. The message names the value, the allowed range and the way out."""


class RunError(UsageError):
    """A run that cannot go on: what failed, who caused it, and how to go on from the last good state."""
