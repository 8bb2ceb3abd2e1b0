"""A policy's forward pass in NumPy: (obs − mean) / std, clipped; the network; the action, within its bounds."""

import numpy as np


class NumpyPolicy:
    """π_θ with its observation normaliser, from raw observations [O] or [N, O] to actions.

    `arrays` are float32, by name: "mean" and "std" [O] of the normaliser (images have none: they are bytes / 255);
    "weight0" [in, out], "bias0" [out], … of the dense layers; of images also "filter0" [side, side, in, out],
    "filter_bias0" [out], …; of continuous actions "action_std" [A], and "low" and "high" [A] if they have bounds.

    `form` has: "clip", of normalised observations; "layers", the number of dense ones; "strides" of the convolutions;
    "image", the shape of an image as [height, width, channels]; "channels_first", if they come before; "nvec", the
    number of each choice's actions, if they are discrete; "several", if an action is several choices.
    """

    def __init__(self, arrays, form):
        self.arrays, self.form = arrays, form
        self._filters = [(arrays[f"filter{i}"], arrays[f"filter_bias{i}"], s) for i, s in enumerate(form["strides"])]
        *self._dense, self._last = [(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(form["layers"])]
        self._mean, self._std, self._clip = arrays.get("mean"), arrays.get("std"), np.float32(form["clip"])
        self._low, self._high, self._action_std = arrays.get("low"), arrays.get("high"), arrays.get("action_std")
        self._nvec = form["nvec"]

    def act(self, obs, deterministic, rng):
        """Actions for float32 observations: the mean (most likely) ones, or sampled by a NumPy Generator. Continuous
        ones are float32 [A], discrete ones int32 [], those of several choices int32 [K]; for [N, O] with N in front."""
        noise = None if deterministic else self.noise(rng, obs.shape[:-1])
        return self.action(self.output(obs), noise)

    def noise(self, rng, batch):
        """The random numbers [*batch, A] of a sample: normal for continuous actions, Gumbel for discrete ones."""
        if self._nvec is None:
            return rng.standard_normal((*batch, self._last[1].size), np.float32)
        return rng.gumbel(size=(*batch, self._last[1].size)).astype(np.float32)

    def action(self, output, noise=None):
        """The action of the network's output: sampled by the noise, or without it the mean (most likely) one."""
        if self._nvec is not None:
            return self._choice(output if noise is None else output + noise)
        if noise is not None:
            output = output + self._action_std * noise
        return output if self._low is None else np.minimum(np.maximum(output, self._low), self._high)

    def output(self, obs):
        """The network's output [A] or [N, A]: means of continuous actions, logits of discrete ones."""
        x, activation = self._normalized(obs), np.tanh
        if self._filters:
            x, activation = self._convolved(x), _relu
        for weight, bias in self._dense:
            x = activation(x @ weight + bias)
        return x @ self._last[0] + self._last[1]

    def _normalized(self, obs):
        if self._mean is None:
            return obs / np.float32(255)
        with np.errstate(over="ignore"):  # what is too large is clipped
            x = (obs - self._mean) / self._std
        return np.minimum(np.maximum(x, -self._clip), self._clip)

    def _convolved(self, x):
        batch, (height, width, channels) = x.shape[:-1], self.form["image"]
        if self.form["channels_first"]:
            x = np.moveaxis(x.reshape(-1, channels, height, width), 1, -1)
        x = x.reshape(-1, height, width, channels)
        for weight, bias, stride in self._filters:
            covered = np.lib.stride_tricks.sliding_window_view(x, weight.shape[:2], (1, 2))[:, ::stride, ::stride]
            x = _relu(np.tensordot(covered, weight, ((4, 5, 3), (0, 1, 2))) + bias)
        return x.reshape(*batch, -1)

    def _choice(self, logits):
        if not self.form["several"]:
            return np.asarray(np.argmax(logits, -1), np.int32)
        parts = np.split(logits, np.cumsum(self._nvec)[:-1], -1)
        return np.stack([np.argmax(part, -1) for part in parts], -1).astype(np.int32)


def _relu(x):
    return np.maximum(x, np.float32(0))
