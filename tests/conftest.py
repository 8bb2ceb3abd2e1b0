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

import jax
import pytest
from jaxtyping import install_import_hook

# before anything imports focops
CHECKED = ["core", "algorithms", "tabular", "training", "envs.tasks", "envs.simulator"]
CHECKED += ["evaluation.device", "envs.mjx", "envs.mjx_model", "envs.mjx_warp", "envs.mujoco_batch", "envs.stagger"]
install_import_hook([f"focops.{name}" for name in CHECKED], "beartype.beartype")


@pytest.fixture(scope="module")
def quick_compiling():
    """Compile in half the time, for programs that are large and run for an instant."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
