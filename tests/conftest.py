"""Shape and type checks are on in every test: jaxtyping annotations are enforced by beartype. What one process of a
session compiles, the others load."""

import atexit
import os
import shutil
import signal
import tempfile
from importlib.metadata import version

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # before JAX is imported; xdist's workers and the processes that tests start inherit it
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="focops-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Nearly all programs of the tests compile for longer than they run. At level 0 and without the emitters of fusions that
# are written in MLIR, XLA takes a seventh of the time; what it computes is the same but for rounding.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", "")
# later versions do not know the flag, and end the process
if version("jaxlib").startswith("0.10.") and "xla_cpu_use_fusion_emitters" not in os.environ["XLA_FLAGS"]:
    os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"

from beartype.claw import beartype_packages
from jaxtyping import install_import_hook

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, also by the processes that tests start

# before anything imports focops; a name stands for all that is below it
SHAPES = ["core", "algorithms", "training", "evaluation.device"]
SHAPES += ["envs.mjx", "envs.mjx_model", "envs.mjx_warp", "envs.tasks"]
SHAPES += [f"tabular.{name}" for name in ("cmdp", "decomposition", "exact_values", "generate", "iterate")]
SHAPES += [f"tabular.{name}" for name in ("json_file", "lp", "plot", "problems", "theorem1")] + [
    "studies",
    "cli.solve_command",
]
install_import_hook([f"focops.{name}" for name in SHAPES], "beartype.beartype")
# types alone, which take far less time to check: these have no shapes, and are called in every step of an environment
TYPES = ["deadline", "gymnasium", "limits", "local", "mujoco_batch", "names", "other_python", "place", "registration"]
TYPES += ["simulator", "stagger", "task_env", "worker_process", "workers"]
beartype_packages([f"focops.envs.{name}" for name in TYPES] + ["focops.tabular.environment"])
