"""Shape and type checks are on in every test: jaxtyping annotations are enforced by beartype."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxtyping import install_import_hook

# before anything imports focops
install_import_hook(["focops.core", "focops.algorithms", "focops.tabular"], "beartype.beartype")
