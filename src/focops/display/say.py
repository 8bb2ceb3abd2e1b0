"""Messages on standard error."""

import contextlib
import sys


def say(what: str, message: str, style: str = "bold yellow") -> None:
    """A message on standard error, above a live display if there is one; lost where standard error is closed."""
    from rich.console import Console
    from rich.text import Text

    with contextlib.suppress(OSError, SystemExit):  # Rich exits where a pipe is closed
        console = Console(stderr=True, highlight=False)
        with console.capture() as captured:
            console.print(Text.assemble((what, style), " ", message), soft_wrap=True)
        sys.stderr.write(captured.get())  # which a live display has replaced; the console would write past it
        sys.stderr.flush()
