"""Shape and type checks are on in every test: jaxtyping annotations are enforced by beartype. What one process of a
session compiles, the others load."""

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # before JAX is imported; xdist's workers and the processes that tests start inherit it
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="focops-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Nearly all programs of the tests compile for longer than they run. At level 0 and without the emitters of fusions that
# are written in MLIR, XLA takes a seventh of the time; what it computes is the same but for rounding.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if "xla_cpu_use_fusion_emitters" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_use_fusion_emitters=false"

from jaxtyping import install_import_hook

# before anything imports focops
CHECKED = ["core", "algorithms", "tabular", "training", "evaluation.device", "studies"]
# of envs all but __init__ (its name is a prefix of the others') and what looks at one foreign environment's values, of
# any type, ten times in each of its steps: the checker itself was half of the time of tests that train
CHECKED += ["envs.deadline", "envs.gymnasium", "envs.limits", "envs.mjx", "envs.mjx_model", "envs.mjx_warp"]
CHECKED += ["envs.mujoco_batch", "envs.registration", "envs.simulator", "envs.stagger", "envs.task_env", "envs.tasks"]
install_import_hook([f"focops.{name}" for name in CHECKED], "beartype.beartype")
