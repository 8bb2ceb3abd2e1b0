"""Which device holds which runs: each has an equal share, and runs the same program."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

RUNS = PartitionSpec("runs")
"""The sharding of arrays [R, ...]."""
CUDA_OPTIONS: dict[str, bool | str] = {
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
    "xla_gpu_command_buffer_unroll_loops": True,
}
"""An update is about fifty small kernels in sequence, in CUDA graphs. Those of the policy and of the critics can run
concurrently, and with WHILE (the rest is XLA's default) an epoch is one graph, not one for each minibatch."""


class Devices:
    """The devices that `runs` runs are divided among. If the last share is not full, it is padded with copies of
    the last run, whose results are dropped."""

    def __init__(self, devices: Sequence[Any] | None, runs: int):
        chosen = list(devices or jax.devices())[:runs]
        self._mesh = Mesh(np.array(chosen), ("runs",))
        self.count = len(chosen)
        self.share = -(-runs // len(chosen))
        """Runs of each device."""
        self.slots = self.share * len(chosen)
        """R: the number of runs, padding included."""

    def filled(self, runs: Sequence[Any]) -> list[Any]:
        """One item per run, extended to the padding."""
        return [*runs, *[runs[-1]] * (self.slots - len(runs))]

    def spread(self, tree: Any) -> Any:
        """Arrays [R, ...], each device's share on it."""
        return jax.device_put(tree, NamedSharding(self._mesh, RUNS))

    def copied(self, tree: Any) -> Any:
        """Arrays that every device has a copy of."""
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

    def compiled(
        self, function: Callable[..., Any], constant: Any, arrays: Any, out: Any = RUNS, donate: bool = False
    ) -> Any:
        """`function(constant.using(arrays), first, *rest)` as a jitted function of (first, *rest), with `arrays` as an
        argument instead of as constants. Runs are the first axis of the others; `out` says which axis they are in the
        result. With `donate` the buffers of `first` are reused."""
        jitted = _jitted(function, constant, self._mesh, out, donate)
        return lambda first, *rest: jitted(arrays, first, rest)


@functools.lru_cache(maxsize=16)
def _jitted(function: Callable[..., Any], constant: Any, mesh: Mesh, out: Any, donate: bool) -> Any:
    """The same for the same arguments: what JAX has compiled of it serves the next trainer or evaluation as well."""

    def program(arrays: Any, first: Any, rest: Any) -> Any:
        return function(constant.using(arrays), first, *rest)

    if mesh.size > 1:
        where = (PartitionSpec(), RUNS, RUNS)
        program = jax.shard_map(program, mesh=mesh, in_specs=where, out_specs=out, check_vma=False)
    options = CUDA_OPTIONS if mesh.devices.flat[0].platform == "gpu" else {}
    return jax.jit(program, donate_argnums=(1,) if donate else (), compiler_options=options)
