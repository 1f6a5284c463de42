"""``keygrasp skills``: development with its pictures and figures, and bad options."""

import json
import xml.etree.ElementTree as ET

import pytest

from keygrasp.cli.main import main
from keygrasp.errors import MissingExtraError
from keygrasp.skills.building import build_image
from keygrasp.skills.emulator import prepare


def test_develop_writes_pictures_and_figures(tmp_path, capsys):
    files = {name: tmp_path / name for name in ("patterns.svg", "graph.svg", "figures.json")}
    options = ["--minutes", "1", "--seed", "3", "--change", "load"]
    options += ["--patterns", str(files["patterns.svg"]), "--graph", str(files["graph.svg"])]
    assert main(["skills", "develop", *options, "--json", str(files["figures.json"])]) == 0
    said = capsys.readouterr()
    assert "move angular" in said.out
    assert "learned" in said.err
    figures = json.loads(files["figures.json"].read_text())
    assert len(figures["skills"]) == 12
    assert figures["skills"]["angular"]["learned_at_s"] > 0
    assert figures["provenance"]["seed"] == 3
    for name in ("patterns.svg", "graph.svg"):
        assert ET.parse(files[name]).getroot().tag.endswith("svg")  # noqa: S314 - written a moment ago


def test_practice_shows_its_runs_and_goes_on_from_a_file(tmp_path, capsys):
    file = tmp_path / "skills.json"
    assert main(["skills", "practise", "--runs", "3", "--out", str(file)]) == 0
    said = capsys.readouterr()
    assert "stroke" in said.out
    assert "novelty" in said.err
    before = json.loads(file.read_text())
    assert len(before["memory"]) == 2 * 768
    assert main(["skills", "practise", "--runs", "2", "--skills", str(file), "--out", str(file)]) == 0
    assert json.loads(file.read_text())["memory"] != before["memory"]


@pytest.mark.slow
@pytest.mark.hardware
def test_footprint_runs_the_image_in_the_emulator(tmp_path, capsys):
    try:
        build_image()
        prepare()
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert main(["skills", "footprint", "--decisions", "20", "--json", str(tmp_path / "f.json")]) == 0
    assert "at 125 MHz" in capsys.readouterr().out
    emulated = json.loads((tmp_path / "f.json").read_text())["emulator"]
    assert emulated["decisions"] >= 20
    assert 1000 < emulated["mean_cycles"] <= emulated["most_cycles"] < 625_000  # 5 ms
    assert emulated["megahertz"] > 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["develop", "--minutes", "0"], "--minutes"),
        (["develop", "--seed", "-1"], "--seed"),
        (["develop", "--minutes", "0.1", "--json", "/proc/none/a.json"], "/proc/none"),
        (["practise", "--runs", "0"], "--runs"),
        (["practise", "--skills", "/none.json"], "/none.json holds no skills"),
        (["footprint", "--decisions", "-1"], "--decisions"),
    ],
)
def test_bad_options_end_with_a_sentence(options, said, capsys):
    assert main(["skills", *options]) != 0
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown


def test_without_a_compiler_the_error_names_the_package(tmp_path, monkeypatch, capsys):
    from keygrasp.skills.core import library

    library.cache_clear()
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path))
    try:
        assert main(["skills", "develop", "--minutes", "1"]) == 3
    finally:
        library.cache_clear()
    assert "apt-get install -y gcc" in capsys.readouterr().err
