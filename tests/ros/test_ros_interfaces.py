"""The interface files: each field says what it is, with its unit; the page in docs is made from them."""

import re
from pathlib import Path

import pytest
from keygrasp_ros.interface_reference import interfaces, page, parse

pytestmark = pytest.mark.ros
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "ros2_ws/src/keygrasp_interfaces"
INTERFACES = list(interfaces(FOLDER))
UNIT = re.compile(
    r"metre|radian|second|newton|in \[0, 1\]|unit (normal|quaternion)|probab|share|score|reward|potential|number|sum",
    re.I,
)


@pytest.mark.parametrize("interface", INTERFACES, ids=lambda interface: interface.name)
def test_each_field_is_explained_with_its_unit(interface):
    assert interface.text
    for field in interface.fields:
        assert len(field.text) > 10, f"{interface.name}: {field.name} is not explained"
        if field.type.startswith("float"):
            assert UNIT.search(field.text), f"{interface.name}: {field.name} has no unit"


def test_each_header_names_its_frame_and_stamp():
    for interface in INTERFACES:
        for field in interface.fields:
            if field.type == "std_msgs/Header":
                assert "frame" in field.text.lower(), interface.name
                assert "stamp" in field.text.lower(), interface.name


def test_a_comment_belongs_to_the_field_below_it():
    text = "# Head\n# on two lines.\n\n# First.\nint8 a\nfloat64[2] b\n---\n# C.\nuint8 C=3\n"
    interface = parse("srv/Thing", text)
    assert interface.text == "Head on two lines."
    assert [(f.section, f.type, f.name, f.value, f.text) for f in interface.fields] == [
        ("Request", "int8", "a", "", "First."),
        ("Request", "float64[2]", "b", "", ""),
        ("Response", "uint8", "C", "3", "C."),
    ]


def test_the_docs_hold_the_generated_page():
    text = (ROOT / "docs/interfaces.md").read_text(encoding="utf-8")
    assert text == page(FOLDER), "run: python -m keygrasp_ros.interface_reference docs/interfaces.md"
