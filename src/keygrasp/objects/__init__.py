"""Where objects come from: the embedded set, YCB, a Dex-Net database, a user's own mesh files."""

from keygrasp.objects.catalog import Catalog
from keygrasp.objects.meshfiles import Unit, mesh_files, prepare_file
from keygrasp.objects.prepared import PreparedObject, Rule, Source
from keygrasp.objects.splits import Split, split

__all__ = ["Catalog", "PreparedObject", "Rule", "Source", "Split", "Unit", "mesh_files", "prepare_file", "split"]
