"""Shaped reward that can't move the optimum: potentials, the shaping term, an exact certificate.

The Gymnasium wrappers are in :mod:`keygrasp.shaping.wrapper` (extra ``grasp``), the language model's potential in
:mod:`keygrasp.shaping.llm` (extra ``llm``), the certificate in :mod:`keygrasp.shaping.certify`.
"""

from keygrasp.shaping.conditions import Condition, ShapingError
from keygrasp.shaping.potential import Potential, RaisedPotential, Stationarity, TablePotential, ZeroPotential
from keygrasp.shaping.rules import RulePotential
from keygrasp.shaping.term import ShapingStep, ShapingTerm, check_stored, shaped_rewards

__all__ = [
    "Condition",
    "Potential",
    "RaisedPotential",
    "RulePotential",
    "ShapingError",
    "ShapingStep",
    "ShapingTerm",
    "Stationarity",
    "TablePotential",
    "ZeroPotential",
    "check_stored",
    "shaped_rewards",
]
