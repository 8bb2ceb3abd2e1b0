"""Videos of policies: episodes as `focops evaluate` runs them, with return and costs drawn into the pictures.

| file | holds |
|---|---|
| record.py | `record`: a run's policy as a video |
| episodes.py | the pictures and sums of episodes, of our tasks and of Gymnasium environments |
| overlay.py | the panel in the corner |
| encode.py | pictures as mp4 or gif |
"""

from focops.video.record import record

__all__ = ["record"]
