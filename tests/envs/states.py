"""Simulations on the CPU put into a given state."""

import numpy as np
from numpy.typing import ArrayLike

from focops.envs.mujoco_batch import MujocoBatch


def set_state(env: MujocoBatch, qpos: ArrayLike, qvel: ArrayLike) -> MujocoBatch:
    """`env` with these positions and velocities in all its simulations, as if an episode had just begun with them."""
    env._physics.qpos[...], env._physics.qvel[...] = qpos, qvel
    env._batch.forward()
    env.obs, env._position = env._observe(), np.array(env.task.robot.position(np, env._physics))
    return env
