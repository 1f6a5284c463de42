"""Developmental skill learning: a C core that fits on an RP2040, its Python face, and a simulated millirobot."""
