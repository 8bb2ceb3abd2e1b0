"""Exceptions for errors that a user can cause and correct."""


class UsageError(ValueError):
    """Bad input. The message names the value, the allowed range and the way out."""


class RunError(UsageError):
    """A run that cannot continue. The message says what failed, why, and how to resume from the last valid state."""
