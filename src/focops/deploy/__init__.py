"""Policies outside of JAX: in NumPy, as an ONNX graph, as one Python file.

| file | holds |
|---|---|
| numpy_policy.py | the forward pass in NumPy: `Policy.predict` runs it, and an exported policy.py contains it |
| plain.py | a policy's arrays, as the others take them |
| onnx_graph.py | the policy as an ONNX graph |
| python_file.py | the policy as a Python file |
| check.py | what is exported against the policy, on random and extreme observations |
| export.py | make one of these files, and check it |
"""
