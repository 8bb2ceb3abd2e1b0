"""Pictures as a video: mp4 (H.264), or gif."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from focops.errors import UsageError
from focops.video.overlay import imported

ENDINGS = (".mp4", ".gif")
_H264 = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-preset", "veryfast", "-movflags", "+faststart"]


def write(path: Path, pictures: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> int:
    """Write pictures of one size; how many. The file is there when it is whole, and not before."""
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        count = (_gif if path.suffix == ".gif" else _mp4)(partial, pictures, size, fps)
        os.replace(partial, path)
        return count
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}; --out names another file") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def _mp4(path: Path, pictures: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> int:
    import imageio_ffmpeg

    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", f"{fps:g}", "-i", "-"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *raw, *_H264, str(path)]
    count = 0
    with (
        tempfile.TemporaryFile() as said,  # Ctrl-C reaches this process alone: it ends the other by its pipe
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said, start_new_session=True) as encoder,
    ):
        assert encoder.stdin is not None
        try:
            for picture in pictures:
                encoder.stdin.write(np.ascontiguousarray(picture).data)
                count += 1
            encoder.stdin.close()
        except BrokenPipeError:
            pass
        if encoder.wait():
            said.seek(0)
            raise OSError(f"ffmpeg: {said.read().decode(errors='replace').strip()}")
    return count


def _gif(path: Path, pictures: Iterator[np.ndarray], size: tuple[int, int], fps: float) -> int:
    image, _, _ = imported()
    count = 0

    def images() -> Iterator[Any]:
        nonlocal count
        for picture in pictures:
            count += 1
            yield image.fromarray(picture).quantize(128, dither=image.Dither.NONE)

    frames = images()
    first = next(frames)
    duration = max(20, round(100 / fps) * 10)  # hundredths of a second, and viewers slow down below two
    first.save(path, save_all=True, append_images=frames, duration=duration, loop=0)
    return count
