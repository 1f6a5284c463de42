"""Makes the synthetic views of tests/perception importable here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "perception"))
