"""A policy as one ONNX graph, from raw observations to actions.

inputs   observation  float32 [N, O]; of images uint8 in their own shape, [N, *image]
         noise        float32 [N, A], if it samples: standard normal for continuous actions, Gumbel for discrete ones
output   action       float32 [N, A]; discrete int64 [N]; several choices int64 [N, K]

The noise is an input, and not made by ONNX's RandomNormalLike: so the graph is a function that can be checked, samples
can be repeated by the caller's own generator, and every runtime can run it. A graph cannot refuse an observation with
NaN; the action is then NaN, or −1 if discrete.
"""

from typing import Any

import numpy as np

from focops.deploy.numpy_policy import NumpyPolicy
from focops.errors import UsageError

OPSET, IR_VERSION = 17, 8
"""Of 2022, so that older runtimes load it, too."""


def build(policy: NumpyPolicy, sampled: bool, image: list[int] | None, about: dict[str, str]) -> bytes:
    """The graph as the bytes of a file; `image` is the shape in which images are observed, `about` its metadata."""
    onnx = imported()
    graph = _Graph(onnx.helper, onnx.numpy_helper)
    kind = onnx.TensorProto
    size = policy.arrays["weight0"].shape[0] if image is None else None
    inputs = [("observation", kind.FLOAT, ["N", size]) if image is None else ("observation", kind.UINT8, ["N", *image])]
    output = _network(graph, policy, _normalized(graph, policy, image))
    choices, actions = policy.form["nvec"], policy.arrays[f"bias{policy.form['layers'] - 1}"].size
    if sampled:
        inputs.append(("noise", kind.FLOAT, ["N", actions]))
        std = None if choices else graph.constant("action_std", policy.arrays["action_std"])
        output = graph.add("Add", output, graph.add("Mul", "noise", std) if std else "noise")
    action = _chosen(graph, policy, output) if choices else _bounded(graph, policy, output)
    if image is None:
        action = _unless_nan(graph, action, choices is not None, policy.form["several"])
    graph.add("Identity", action, name="action")
    shape = ["N", *([len(choices)] if policy.form["several"] else [])] if choices else ["N", actions]
    made = onnx.helper.make_graph(
        graph.nodes,
        "policy",
        [onnx.helper.make_tensor_value_info(*each) for each in inputs],
        [onnx.helper.make_tensor_value_info("action", kind.INT64 if choices else kind.FLOAT, shape)],
        graph.constants,
        doc_string=__doc__,
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION, producer_name="focops")
    onnx.helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def imported() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
        import onnxruntime  # noqa: F401 - what is exported is checked by it
    except ImportError as error:
        raise UsageError(f"an ONNX graph needs {error.name}: pip install 'focops[onnx]'") from error
    return onnx


class _Graph:
    """Nodes and constants, added one by one."""

    def __init__(self, helper: Any, numpy_helper: Any) -> None:
        self._helper, self._numpy_helper = helper, numpy_helper
        self.nodes, self.constants = [], []

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        self.constants.append(self._numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node of one output; its name."""
        name = name or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(self._helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name


def _normalized(graph: _Graph, policy: NumpyPolicy, image: list[int] | None) -> str:
    if image is not None:
        pixels = graph.add("Cast", "observation", to=1)  # float32
        return graph.add("Div", pixels, graph.constant("largest_byte", 255))
    mean, std = (graph.constant(name, policy.arrays[name]) for name in ("mean", "std"))
    scaled = graph.add("Div", graph.add("Sub", "observation", mean), std)
    ends = [graph.constant(name, sign * policy.form["clip"]) for name, sign in (("clip_low", -1), ("clip_high", 1))]
    return graph.add("Clip", scaled, *ends)


def _network(graph: _Graph, policy: NumpyPolicy, x: str) -> str:
    activation = "Tanh"
    if policy.form["image"]:
        x, activation = _convolved(graph, policy, x), "Relu"
    for i in range(policy.form["layers"]):
        weight, bias = (graph.constant(name, policy.arrays[name]) for name in (f"weight{i}", f"bias{i}"))
        x = graph.add("Gemm", x, weight, bias)
        if i < policy.form["layers"] - 1:
            x = graph.add(activation, x)
    return x


def _convolved(graph: _Graph, policy: NumpyPolicy, x: str) -> str:
    """ONNX has channels before height and width, the dense layers take them after."""
    height, width, channels = policy.form["image"]
    if not policy.form["channels_first"]:
        x = graph.add("Reshape", x, graph.constant("image", [-1, height, width, channels], np.int64))
        x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    for i, stride in enumerate(policy.form["strides"]):
        weight = graph.constant(f"filter{i}", policy.arrays[f"filter{i}"].transpose(3, 2, 0, 1))
        bias = graph.constant(f"filter_bias{i}", policy.arrays[f"filter_bias{i}"])
        x = graph.add("Relu", graph.add("Conv", x, weight, bias, strides=[stride, stride]))
    return graph.add("Flatten", graph.add("Transpose", x, perm=[0, 2, 3, 1]))


def _bounded(graph: _Graph, policy: NumpyPolicy, mean: str) -> str:
    if "low" not in policy.arrays:
        return mean
    low, high = (graph.constant(name, policy.arrays[name]) for name in ("low", "high"))
    return graph.add("Min", graph.add("Max", mean, low), high)


def _chosen(graph: _Graph, policy: NumpyPolicy, logits: str) -> str:
    if not policy.form["several"]:
        return graph.add("ArgMax", logits, axis=1, keepdims=0)
    axis, first, chosen = graph.constant("axis", [1], np.int64), 0, []
    for i, count in enumerate(policy.form["nvec"]):
        ends = [graph.constant(f"{end}{i}", [at], np.int64) for end, at in (("first", first), ("end", first + count))]
        chosen.append(graph.add("ArgMax", graph.add("Slice", logits, *ends, axis), axis=1, keepdims=1))
        first += count
    return graph.add("Concat", *chosen, axis=1)


def _unless_nan(graph: _Graph, action: str, discrete: bool, several: bool) -> str:
    """NaN, or −1 if discrete, for an observation with NaN; runtimes differ in what they clip it to."""
    found = graph.add("Cast", graph.add("IsNaN", "observation"), to=1)
    row = graph.add("ReduceMax", found, axes=[1], keepdims=int(several or not discrete))
    nothing = graph.constant("no_action", -1 if discrete else np.nan, np.int64 if discrete else np.float32)
    return graph.add("Where", graph.add("Cast", row, to=9), nothing, action)  # 9: bool
