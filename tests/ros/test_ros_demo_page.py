"""The demo's page: what it says beside its figures."""

import pytest
from keygrasp_ros.demo_report import DemoPick, write_page

pytestmark = pytest.mark.ros


def test_the_page_says_what_no_moves_mean(tmp_path):
    pytest.importorskip("jinja2")
    pick = DemoPick("042", 0, "success", "lifted", True, "", "refined", 0.9, 0, 12, ("lift",), 3.0, {"refiner": 5.0})
    write_page(tmp_path / "report.html", [pick], {"planner": "refined"})
    text = (tmp_path / "report.html").read_text()
    assert ">Moves by the refiner</th>" in text
    assert "0 means that one of the scored grasps was best as it stood" in text
