"""Potentials by the names that settings and commands use."""

from __future__ import annotations

from collections.abc import Callable

from keygrasp.errors import ConfigurationError
from keygrasp.shaping.potential import Potential, ZeroPotential
from keygrasp.shaping.rules import AdversarialPotential, RulePotential


def make_potential(name: str, seed: int = 0) -> Potential:
    """The potential of an option: ``none``, ``rules``, ``llm``, ``learned``, and ``adversarial`` for tests.

    Raises:
        ConfigurationError: If the name is unknown.
    """
    makers: dict[str, Callable[[], Potential]] = {
        "none": ZeroPotential,
        "rules": RulePotential,
        "llm": _language_model,
        "learned": lambda: _learned(seed),
        "adversarial": AdversarialPotential,
    }
    if name not in makers:
        raise ConfigurationError(f"unknown potential '{name}'", f"Known: {', '.join(makers)}")
    return makers[name]()


def _language_model() -> Potential:
    from keygrasp.shaping.llm import language_model_potential

    return language_model_potential()


def _learned(seed: int) -> Potential:
    from keygrasp.shaping.learned import LearnedConfig, LearnedPotential

    return LearnedPotential(LearnedConfig(seed=seed))
