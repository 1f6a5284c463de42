"""``keygrasp curriculum``: figures, plots, resuming, and what it says to wrong input."""

import json
import subprocess
import sys

import numpy as np
import pytest

from keygrasp.cli.main import main
from keygrasp.curriculum import make_scheduler

SMALL = [
    "curriculum",
    "simulate",
    "--samples",
    "400",
    "--steps",
    "3",
    "--noise",
    "0.5",
    "--seeds",
    "2",
    "--workers",
    "1",
]


def test_simulate_writes_figures_and_plots_and_resumes(tmp_path, capsys):
    methods = ["--methods", "graph", "knn"]
    out = [
        "--journal",
        str(tmp_path / "j.jsonl"),
        "--json",
        str(tmp_path / "f.json"),
        "--plot",
        str(tmp_path / "p.svg"),
    ]
    assert main([*SMALL, *methods, *out]) == 0
    first = json.loads((tmp_path / "f.json").read_text())
    study = first["noise"]["0.5"]
    assert set(study["methods"]) == {"graph", "knn"}
    assert study["best_baseline"] == "knn"
    assert study["by_seed"].keys() == {"0", "1"}
    assert first["provenance"]["command"]
    assert (tmp_path / "p-0.5.svg").read_text().startswith("<svg")
    before = (tmp_path / "j.jsonl").read_text()
    assert main([*SMALL, *methods, *out]) == 0  # nothing is left to do
    assert (tmp_path / "j.jsonl").read_text() == before
    assert json.loads((tmp_path / "f.json").read_text())["noise"] == first["noise"]
    assert "graph" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "graphs"], "unknown method 'graphs'"),
        (["--seeds", "0"], "at least 1 seed"),
        (["--samples", "100"], "no more a batch than samples"),
        (["--json", "/proc/nowhere/f.json"], "can't write"),
    ],
)
def test_wrong_input_is_told_without_a_traceback(arguments, message, capsys):
    assert main([*SMALL, *arguments]) not in (0, 1)
    told = capsys.readouterr().err
    assert message in told.replace("\n", " ")
    assert "Traceback" not in told


def test_scale_measures_and_keeps_its_graphs(tmp_path, capsys):
    command = ["curriculum", "scale", "--samples", "600", "--updates", "2", "--graphs", str(tmp_path)]
    assert main([*command, "--json", str(tmp_path / "f.json")]) == 0
    size = json.loads((tmp_path / "f.json").read_text())["sizes"][0]
    assert size["samples"] == 600
    assert size["kept_mib"] > 0
    assert main(command) == 0
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    picture = tmp_path / "growth.svg"
    assert main([*command, "--search", "windows", "--plot", str(picture)]) == 0
    assert len(list(tmp_path.glob("*.safetensors"))) == 2  # another graph, kept beside the first one
    assert "milliseconds" in picture.read_text()


def test_it_runs_without_what_the_base_install_lacks():
    """numpy, scipy and the standard library are enough for the three calls."""
    code = (
        "import sys, numpy as np; from keygrasp.curriculum import make_scheduler;"
        "s = make_scheduler('graph', np.random.default_rng(0).normal(size=(50, 3)));"
        "g = s.allocate(20); s.update(g.ids, g.trials // 2, g.trials); s.estimate();"
        "print(sorted({'torch', 'cv2', 'pybullet', 'trimesh', 'pynndescent', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


def test_many_samples_without_the_extra_name_it(monkeypatch):
    from keygrasp.curriculum import neighbours
    from keygrasp.errors import MissingExtraError

    monkeypatch.setattr(neighbours, "EXACT_SAMPLES", 10)
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(MissingExtraError, match="graph"):
        make_scheduler("graph", np.eye(20))
