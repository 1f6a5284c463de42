"""One way to every object, wherever it comes from."""

from __future__ import annotations

from typing import Literal

from keygrasp.errors import InputError
from keygrasp.objects import embedded
from keygrasp.objects.prepared import PreparedObject, Rule


class Catalog:
    """Names and prepared objects of each source.

    Preparing is cached in memory here and on disk (``keygrasp.objects.cache``); a catalog is cheap to make.
    """

    def names(self, source: Literal["embedded"] = "embedded") -> tuple[str, ...]:
        """Names of a source's usable objects, sorted."""
        if source == "embedded":
            return embedded.names()
        raise InputError(f"unknown object source {source!r}")

    def prepare(self, name: str, rule: Rule = "E", *, source: Literal["embedded"] = "embedded") -> PreparedObject:
        """Scale an object and give it mass, inertia, body frame and convex pieces (KG-1)."""
        if source == "embedded":
            return embedded.prepare(name, rule)
        raise InputError(f"unknown object source {source!r}")
