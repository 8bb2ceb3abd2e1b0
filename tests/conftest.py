"""Shape and type checks are on in every test: jaxtyping annotations are enforced by beartype."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from jaxtyping import install_import_hook

# before anything imports focops
install_import_hook(["focops.core", "focops.algorithms", "focops.tabular"], "beartype.beartype")


@pytest.fixture(scope="module")
def quick_compiling():
    """Compile in half the time, for programs that are large and run for an instant."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
