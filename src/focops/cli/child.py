"""A run of a grid, or several as one program, as a process that ends with it: python -m focops.cli.child train …"""

import os
import signal
import sys
import threading

_STOP = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has no SIGHUP


def _end_with_parent() -> None:
    """Stop by SIGHUP (after the iteration, with a checkpoint) once standard input ends. It is a pipe whose other end
    only the parent holds, so its end means that the parent has exited."""
    signal.signal(_STOP, signal.SIG_DFL)  # a parent under nohup ignores it, and so would this process
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        while os.read(pipe, 1):
            pass
        os.kill(os.getpid(), _STOP)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    _end_with_parent()
    from focops.cli import COMMANDS, main

    COMMANDS["program"] = ("FOLDER", "train the runs that a file there names as one program", "engines.programs:train")
    sys.exit(main())
