"""A worker process and this end of the channel to it: JSON lines on a socket."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("worker.py")
_START = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
"""Not the file itself: its folder would be on the module path, and has a gymnasium.py."""
_GOODBYE_SECONDS = 5.0
"""Seconds in which an idle worker has to end."""
_LOOK_SECONDS = 1.0
"""Seconds between two looks at whether a worker that does not answer is still alive."""


class Dead(Exception):
    """The worker has ended, or closed its end of the channel."""


class Worker:
    """One worker process and its end of the channel."""

    def __init__(self, python: str) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [python, "-c", _START, str(PROGRAM), str(theirs.fileno())],
                stdin=subprocess.PIPE,  # closed when this process ends, which ends the worker, whatever it does
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C reaches this process alone; what environments start is of its group
            )
        self._received = b""

    def send(self, command: str, data: bytes = b"", /, **arguments: Any) -> None:
        try:
            self._channel.settimeout(None)
            self._channel.sendall(json.dumps([command, arguments]).encode() + b"\n" + data)
        except OSError as error:
            raise Dead from error

    def receive(self, until: float | None) -> dict[str, Any]:
        """The answer; TimeoutError if it does not come `until` a time of the monotonic clock."""
        while b"\n" not in self._received:
            left = _LOOK_SECONDS if until is None else max(until - time.monotonic(), 1e-6)
            self._channel.settimeout(min(left, _LOOK_SECONDS))
            try:
                data = self._channel.recv(1 << 16)
            except TimeoutError:
                if self.process.poll() is not None:  # a process that it forked holds the channel open
                    raise Dead from None
                if until is not None and time.monotonic() >= until:
                    raise
                continue
            except ConnectionError as error:
                raise Dead from error
            if not data:
                raise Dead
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    def dismiss(self) -> None:
        """Let the process end by itself."""
        self._channel.close()

    def end(self, wait: float) -> None:
        """Wait for the end of the process, and end it after `wait` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(wait)
        self.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def kill(self) -> None:
        """End the process, and all that its environments have started and left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: of a group that has ended
            os.killpg(self.process.pid, signal.SIGKILL)

    def ending(self) -> str:
        """How the process ended."""
        try:
            status = self.process.wait(_GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            return "closed its channel"
        if status >= 0:
            return f"ended with exit status {status}"
        return f"was killed by signal {-status} ({signal.Signals(-status).name})"


def end_all(workers: list[Worker]) -> None:
    for worker in workers:
        worker.dismiss()
    for worker in workers:
        worker.end(_GOODBYE_SECONDS)
