"""Policies outside of JAX.

| file | holds |
|---|---|
| numpy_policy.py | the forward pass in NumPy, which `Policy.predict` runs |
| plain.py | a policy's arrays as NumPy takes them |
"""
