"""Finite CMDPs solved exactly: the paper's theory as programs, and the truth to measure learners against.

>>> from focops import tabular
>>> problem = tabular.gridworld(["S..", ".H.", "..G"], limit=0.05)
>>> tabular.solve_lp(problem).ret
"""

from focops.tabular.cmdp import CMDP
from focops.tabular.exact_values import PolicyValues, evaluate
from focops.tabular.generate import garnet, gridworld, queue
from focops.tabular.iterate import focops_iterate, practical_iterate, practical_update
from focops.tabular.json_file import load, save
from focops.tabular.lp import Infeasible, Solution, solve_lp
from focops.tabular.theorem1 import Update, focops_update

__all__ = [
    "CMDP",
    "Infeasible",
    "PolicyValues",
    "Solution",
    "Update",
    "evaluate",
    "focops_iterate",
    "focops_update",
    "garnet",
    "gridworld",
    "load",
    "practical_iterate",
    "practical_update",
    "queue",
    "save",
    "solve_lp",
]
