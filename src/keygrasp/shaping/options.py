"""Potentials by the names that settings and commands use."""

from __future__ import annotations

from collections.abc import Callable

from keygrasp.errors import ConfigurationError
from keygrasp.shaping.potential import RAISED, Potential, RaisedPotential, ZeroPotential
from keygrasp.shaping.rules import AdversarialPotential, RulePotential


def make_potential(name: str, seed: int = 0) -> Potential:
    """The potential of an option: ``none``, ``rules``, ``llm``, ``learned``, and ``adversarial`` for tests.

    With ``+raised`` behind it the potential is raised above all returns (:class:`RaisedPotential`).

    Raises:
        ConfigurationError: If the name is unknown, or a dynamic potential is to be raised.
    """
    makers: dict[str, Callable[[], Potential]] = {
        "none": ZeroPotential,
        "rules": RulePotential,
        "llm": _language_model,
        "learned": lambda: _learned(seed),
        "adversarial": AdversarialPotential,
    }
    base = name.removesuffix(RAISED)
    if base not in makers:
        raise ConfigurationError(f"unknown potential '{name}'", f"Known: {', '.join(makers)}")
    return makers[base]() if base == name else RaisedPotential(makers[base]())


def _language_model() -> Potential:
    from keygrasp.shaping.llm import language_model_potential

    return language_model_potential()


def _learned(seed: int) -> Potential:
    from keygrasp.shaping.learned import LearnedConfig, LearnedPotential

    return LearnedPotential(LearnedConfig(seed=seed))
