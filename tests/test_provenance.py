"""Where a figure comes from."""

import pytest

from keygrasp import provenance


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Some CPU 7000 @ 2.1GHz\n\n",
            "Some CPU 7000 @ 2.1GHz",
        ),
        (
            "cpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\nmodel name\t: Other\n",
            "AMD EPYC, family 26 model 2",
        ),
        ("BogoMIPS\t: 50.00\n", provenance.platform.machine()),
        ("", provenance.platform.machine()),
    ],
)
def test_the_processor_is_named_so_that_figures_can_be_compared(tmp_path, monkeypatch, text, name):
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    monkeypatch.setattr(provenance, "Path", lambda _: file)
    assert provenance._processor() == name
