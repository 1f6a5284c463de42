"""One way to every object, wherever it comes from.

Every name that a catalog gives can stand alone, so that a worker process needs name, source and rule only:

========== ============================================================
embedded   ``042``
ycb        ``025_mug``
dexnet     ``FILE.hdf5::DATASET/KEY``
file       ``FILE.obj``, or ``FILE.obj::mm`` with the unit of its numbers
========== ============================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from keygrasp.errors import InputError, suggestion
from keygrasp.objects import dexnet, embedded, meshfiles, ycb
from keygrasp.objects.meshfiles import METRES_PER_UNIT, Unit
from keygrasp.objects.prepared import PreparedObject, Rule, Source

_MARK = "::"


class Catalog:
    """Names and prepared objects of each source; it holds no state and is free to make."""

    def names(
        self, source: Source = "embedded", *, location: str | Path | None = None, unit: Unit | None = None
    ) -> tuple[str, ...]:
        """Names of a source's objects, sorted; those of the embedded set are usable by its rule.

        Args:
            source: Where to look.
            location: The HDF5 file of ``dexnet``, or the file or folder of ``file``; not for the others.
            unit: Unit of the mesh files' numbers, see ``meshfiles.prepare_file``.

        Raises:
            InputError: If the source is unknown or lacks its location.
            DatabaseError: If the Dex-Net database can't be read.
            MeshError: If the folder can't be read or holds no mesh.
        """
        if source == "embedded":
            return embedded.names()
        if source == "ycb":
            return ycb.names()
        if source not in get_args(Source):
            raise InputError(f"unknown object source {source!r}", f"Choose one of {', '.join(get_args(Source))}")
        if location is None:
            raise InputError(f"the source '{source}' needs a location", "Name the database, mesh file or folder")
        place = Path(location)
        if source == "dexnet":
            with dexnet.DexNetDatabase(place) as database:
                return tuple(
                    f"{place}{_MARK}{dataset}/{key}"
                    for dataset in database.datasets()
                    for key in database.objects(dataset)
                )
        files = meshfiles.mesh_files(place) if place.is_dir() else (place,)
        return tuple(f"{path}{_MARK}{unit}" if unit else str(path) for path in files)

    def check(self, names: Sequence[str], *, source: Source = "embedded") -> None:
        """Find out before long work whether there are objects of these names; their meshes are not looked at.

        Raises:
            InputError: If there is none of one name.
        """
        if source in ("embedded", "ycb"):
            known = self.names(source)
            for name in names:
                if name not in known:
                    remedy = suggestion(name, known, "'keygrasp objects list' prints the names")
                    raise InputError(f"no object of the source '{source}' is named {name!r}", remedy)
            return
        for name in names:
            path = _dexnet_parts(name)[0] if source == "dexnet" else _file_parts(name)[0]
            if not path.is_file():
                raise InputError(f"there is no file {path}", "Check the names of the objects")

    def prepare(self, name: str, rule: Rule = "E", *, source: Source = "embedded") -> PreparedObject:
        """Scale an object and give it mass, inertia, body frame and convex pieces (KG-1); cached on disk.

        Args:
            name: From ``names``.
            rule: Scaling rule, see ``prepared.scale_factor``.
            source: Where the object comes from.

        Raises:
            InputError: If source, rule or name is unknown.
            MeshError: If the mesh can't be used.
            DatabaseError: If the Dex-Net database can't be read.
        """
        if rule not in get_args(Rule):
            raise InputError(f"unknown scaling rule {rule!r}", f"Choose one of {', '.join(get_args(Rule))}")
        if source == "embedded":
            return embedded.prepare(name, rule)
        if source == "ycb":
            return ycb.prepare(name, rule)
        if source == "dexnet":
            path, dataset, key = _dexnet_parts(name)
            return dexnet.prepare(path, dataset, key, rule)
        if source == "file":
            path, unit = _file_parts(name)
            return meshfiles.prepare_file(path, unit, rule)
        raise InputError(f"unknown object source {source!r}", f"Choose one of {', '.join(get_args(Source))}")


def _dexnet_parts(name: str) -> tuple[Path, str, str]:
    path, mark, item = name.rpartition(_MARK)
    dataset, slash, key = item.partition("/")
    if not (path and mark and slash and dataset and key):
        raise InputError(f"{name!r} names no Dex-Net object", "Write FILE.hdf5::DATASET/KEY")
    return Path(path), dataset, key


def _file_parts(name: str) -> tuple[Path, Unit | None]:
    path, mark, text = name.rpartition(_MARK)
    for unit in METRES_PER_UNIT:
        if mark and text == unit:
            return Path(path), unit
    return Path(name), None
