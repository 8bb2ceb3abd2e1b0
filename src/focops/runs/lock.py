"""The lock on a run's directory, which excludes a second process."""

import os
from pathlib import Path
from typing import IO, Any

from filelock import lock_descriptor

from focops.errors import UsageError
from focops.runs.files import is_still_at, open_own


class Lock:
    """An exclusive lock on a file, held until `release` or the end of the process. The file holds the process's id."""

    def __init__(self, file: Path) -> None:
        """Raises UsageError if another process holds the lock, OSError if the file cannot be written."""
        self._path = file
        self._file: IO[Any] = open_own(file, "a+")
        try:
            if not lock_descriptor(self._file.fileno(), blocking=False):
                raise UsageError(
                    f"another process (pid {self._owner()}) works on the run in {file.parent}; wait for it or stop it"
                    " first"
                )
        except BaseException:
            self._file.close()
            raise
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    @property
    def is_in_place(self) -> bool:
        """Whether the locked file is still at its path: its directory may have been removed, renamed or replaced."""
        return is_still_at(self._path, self._file.fileno())

    def release(self) -> None:
        self._file.close()

    def _owner(self) -> str:
        """The process that holds the lock, as the file tells it."""
        try:
            self._file.seek(0)
            return self._file.read().strip() or "unknown"
        except OSError:  # Windows lets no one else read a byte that is locked
            return "unknown"
