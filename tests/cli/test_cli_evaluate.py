"""``keygrasp evaluate`` and ``ablate``: what they refuse, in one line with the remedy; what they write of nothing."""

import pytest

from keygrasp.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        (["evaluate", "--controls", "refined"], "no control"),
        (["evaluate", "--controls", "cme"], "Did you mean 'cem'"),
        (["evaluate", "--weights", "none.safetensors"], "none.safetensors"),
        (["evaluate", "--seeds", "1", "1"], "twice"),
        (["evaluate", "--objects", "100000"], "100000 objects"),
        (["evaluate", "--tail", "-1"], "tail must be at least 0"),
        (["evaluate", "--pictures", "-1"], "--pictures"),
        (["ablate", "none.yaml"], "none.yaml"),
    ],
)
def test_wrong_arguments_are_refused(arguments, needle, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert needle in error
    assert "Traceback" not in error


def test_a_report_of_nothing_says_so(capsys, tmp_path):
    assert main(["evaluate", "--report-only", "--out", str(tmp_path / "nothing")]) == 0
    assert "nothing has been tried yet" in capsys.readouterr().out
    assert not (tmp_path / "nothing").exists()


def test_an_ablation_of_nothing_is_refused(capsys, tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("objects: 3\n")
    assert main(["ablate", str(path)]) == 2
    assert "nothing to vary" in capsys.readouterr().err


def test_a_file_is_no_folder_of_results(capsys, tmp_path):
    (tmp_path / "taken").touch()
    assert main(["evaluate", "--out", str(tmp_path / "taken")]) == 2
    assert "is a file" in capsys.readouterr().err
