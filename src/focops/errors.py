"""The one exception for what a user can cause and mend."""


class UsageError(ValueError):
    """Bad input. The message names the value, the allowed range and the way out."""
