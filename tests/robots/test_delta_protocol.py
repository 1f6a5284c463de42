"""The wire: the emulated firmware against the golden transcript, and parsers against anything at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.errors import InputError
from keygrasp.robots.delta_x import MODELS, Dialect, dialects
from keygrasp.robots.delta_x.emulator import Fault, FaultKind, Firmware, parse_fault
from keygrasp.robots.delta_x.emulator.arduino import print_float, read_float, words
from keygrasp.robots.delta_x.replies import Kind, LineReader, parse_reply


class Wire:
    """A firmware with a clock of its own."""

    def __init__(self, model="X1", *faults, dialect=None):
        import dataclasses

        chosen = MODELS[model] if dialect is None else dataclasses.replace(MODELS[model], dialect=dialect)
        self.events = []
        self.firmware = Firmware(chosen, faults, lambda name, figures: self.events.append((name, figures)))
        self.now = 0.0
        self.firmware.power_on(0.0)

    def send(self, data):
        self.firmware.receive(data, self.now)
        return self.firmware.take_output()

    def settle(self, seconds=60.0):
        """What is printed until nothing is due any more, at most for some seconds."""
        end, out = self.now + seconds, b""
        while (due := self.firmware.due()) is not None and due <= end:
            self.now = max(self.now, due)
            self.firmware.advance(self.now)
            out += self.firmware.take_output()
        self.now = end if out == b"" else self.now
        return out

    def ask(self, line):
        return self.send(line.encode() + b"\n") + self.settle()


@pytest.fixture
def wire():
    wire = Wire()
    assert wire.firmware.take_output() == b"Init Success!\r\n"
    assert wire.settle() == b""  # it homes by itself, without an Ok
    return wire


def test_golden_transcript(wire):
    assert wire.ask("IsDelta") == b"YesDelta\r\n"
    assert wire.send(b"IsDelta\r\n") == b"YesDelta\r\n"
    assert wire.ask("G28") == b"Ok\r\n"
    assert wire.ask("Position") == b"0.00,-0.00,-200.31\r\n"
    assert wire.ask("G01 X0 Y0 Z-300 F200") == b"Ok\r\n"
    assert wire.ask("G01 X50.5 Y-30.25 Z-320.125 F100") == b"Ok\r\n"
    assert wire.ask("Position") == b"50.50,-30.25,-320.13\r\n"
    for line in ("G1 X10", "M03", "M03 S128", "M05", "M360 E0", "G4 P200"):
        assert wire.ask(line) == b"Ok\r\n", line
    assert wire.ask("G93") == b"10.00,-30.25,-320.13\r\nUnknown\r\n"
    for line in ("M99", "G01 X200 Y0 Z-300", "G01 X0 Y0 Z-403", "M206 X0 Y0 Z-10"):
        assert wire.ask(line) == b"Unknown\r\n", line
    for line in ("Angle", "position", "g28", "", "Disconnect"):
        assert wire.ask(line) == b"", line


def test_four_lines_at_once(wire):
    wire.ask("G28")
    at_once = wire.send(b"G1 X0 Y0 Z-300 F100\nG1 Z-320\nPosition\nIsDelta\n")
    assert at_once == b"0.00,0.00,-300.00\r\nYesDelta\r\n"
    assert wire.settle() == b"Ok\r\nOk\r\n"


def test_the_first_unknown_code_after_boot_is_acknowledged(wire):
    assert wire.ask("M99") == b"Ok\r\n"
    assert wire.ask("M99") == b"Unknown\r\n"


def test_moves_take_their_time_and_are_acknowledged_at_the_end(wire):
    wire.ask("G28")
    assert wire.send(b"G1 X0 Y0 Z-300.3133 F100\n") == b""
    began = wire.now
    assert wire.settle() == b"Ok\r\n"
    # 100 mm at 100 mm/s, with 2000 mm/s² at both ends.
    assert wire.now - began == pytest.approx(1.05, abs=0.001)


def test_short_moves_are_acknowledged_but_not_made(wire):
    wire.ask("G1 X0 Y0 Z-300")
    assert wire.ask("G1 X0.1 Y0 Z-300") == b"Ok\r\n"
    assert wire.ask("Position") == b"0.00,0.00,-300.00\r\n"


def test_relative_mode_doubles_omitted_axes(wire):
    wire.ask("G1 X10 Y0 Z-180")
    wire.ask("G1 X10 Y0 Z-150")  # allowed by the firmware, which checks a cylinder without a top
    wire.ask("G91")
    assert wire.ask("G1 Y5") == b"Ok\r\n"
    assert wire.ask("Position") == b"20.00,5.00,-300.00\r\n"


def test_words_are_parted_by_spaces_only(wire):
    wire.ask("G1 X0 Y0 Z-300")
    assert wire.ask("G1X10Y20") == b"Ok\r\n"
    assert wire.ask("Position") == b"0.00,0.00,-300.00\r\n"


def test_a_rejected_move_with_a_turn_is_acknowledged(wire):
    wire.ask("G28")
    assert wire.ask("G1 X200 Y0 Z-300 W90") == b"Ok\r\n"
    assert wire.ask("Position") == b"0.00,-0.00,-200.31\r\n"


def test_more_than_seventy_characters_without_an_end_are_discarded(wire):
    wire.ask("G28")
    wire.send(b"G1 X50 Y0 Z-300")
    wire.send(dialects.FILLER)
    assert wire.send(b"\n") + wire.settle() == b""
    assert wire.ask("Position") == b"0.00,-0.00,-200.31\r\n"
    # 70 are kept.
    wire.send(b"G1 X50 Y0 Z-300".ljust(70))
    assert wire.send(b"\n") + wire.settle() == b"Ok\r\n"


@pytest.mark.parametrize("line", ["G4", "M204", "M203", "M360", "M360 E6", "G2 X0 Y0", "M206 Z-10", "M", "G7"])
def test_missing_parameters_and_unknown_codes_are_refused(wire, line):
    wire.ask("G28")
    assert wire.ask(line) == b"Unknown\r\n"


def test_arcs_end_where_they_should(wire):
    wire.ask("G1 X50 Y0 Z-300")
    assert wire.ask("G2 I-50 J0 X0 Y50 F100") == b"Ok\r\n"
    assert wire.ask("Position") == b"0.00,50.00,-300.00\r\n"
    assert wire.ask("G3 I-50 J0 X0 Y0") == b"Unknown\r\n"  # not on the circle


def test_the_other_dialects_answer_in_their_own_way():
    wire = Wire(dialect=Dialect.XS)
    wire.firmware.take_output()
    wire.settle()
    assert wire.ask("G1 X10 Y0 Z-300.5 F200") == b"Ok\r\n"
    assert wire.ask("Position") == b"Position:X10 Y0 Z-300.5 W85 U0\r\n"
    assert wire.ask("M99") == b"Unknow:M99\r\n"
    assert wire.ask("M03 P1 W128") == b"Ok\r\n"
    assert wire.ask("M03 D2") == b"Ok\r\n"
    assert wire.firmware.machine.outputs == {"P1": pytest.approx(128 / 255), "D2": 1.0}
    assert wire.ask("M05 P1") == b"Ok\r\n"
    assert wire.ask("M03 S50") == b"Unknow:M03 S50\r\n"
    wire.send(b"G1 X-100 Y0 Z-300.5 F100\n")
    wire.now += 0.5
    wire.send(b"Emergency: Stop\n")
    stopped = wire.firmware.position(wire.now)
    assert -100 < stopped[0] < 10
    assert wire.ask("G1 X0 Y0 Z-300") == b"Unknow:G1 X0 Y0 Z-300\r\n"
    wire.send(b"Emergency: Reset\n")
    assert wire.ask("G1 X0 Y0 Z-300") == b"Ok\r\n"


def test_x2_tells_its_state_and_pauses():
    wire = Wire(dialect=Dialect.X2)
    wire.firmware.take_output()
    wire.settle()
    assert wire.ask("DeltaState") == b"Free\r\n"
    wire.send(b"G1 X0 Y0 Z-300 F100\n")
    assert wire.send(b"DeltaState\n") == b"Running\r\n"
    wire.now += 0.3
    wire.send(b"Emergency: Pause\n")
    wire.now += 100
    assert wire.settle(1) == b""
    wire.send(b"Emergency: Resume\n")
    assert wire.settle() == b"Ok\r\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [(-320.125, "-320.13"), (50.5, "50.50"), (-1e-5, "-0.00"), (0.0, "0.00"), (0.995, "1.00"), (-200.31334, "-200.31")],
)
def test_numbers_are_printed_as_the_firmware_does(value, text):
    assert print_float(value) == text


def test_numbers_are_read_as_the_firmware_does():
    assert [read_float(text) for text in ("1.5", "-.5x", "abc", "", "+3", "1X10")] == [1.5, -0.5, 0.0, 0.0, 3.0, 1.0]
    assert words("G1  X1.5 Y") == [("G", 1.0), ("X", 1.5), ("Y", 0.0)]


@pytest.mark.parametrize(
    ("line", "kind", "position"),
    [
        (b"Ok", Kind.OK, ()),
        (b"Ok\r", Kind.OK, ()),
        (b"Unknown", Kind.REJECTED, ()),
        (b"Unknow:", Kind.REJECTED, ()),
        (b"Unknow:G1 X900", Kind.REJECTED, ()),
        (b"YesDelta", Kind.READY, ()),
        (b"Init Success!", Kind.BOOTED, ()),
        (b"0.00,-0.00,-200.31", Kind.POSITION, (0.0, 0.0, -200.31)),
        (b"Position:1,2,-3,4,5", Kind.POSITION, (1, 2, -3)),
        (b"X30.4 Y90 Z-800 W50 U90", Kind.POSITION, (30.4, 90, -800)),
        (b"Position: X30.4 Y90 Z-800", Kind.POSITION, (30.4, 90, -800)),
        (b"Running", Kind.STATE, ()),
        (b"OkOk", Kind.OTHER, ()),
        (b"ok", Kind.OTHER, ()),
        (b"xOk", Kind.OTHER, ()),
        (b"\xffOk", Kind.NOISE, ()),
        (b"Ok\x00", Kind.NOISE, ()),
        (b"1,2", Kind.OTHER, ()),
        (b"1,2,nan", Kind.OTHER, ()),
        (b"1,2,9999999", Kind.OTHER, ()),
        (b"T:25.0", Kind.OTHER, ()),
    ],
)
def test_answers_are_told_apart(line, kind, position):
    reply = parse_reply(line)
    assert (reply.kind, reply.position) == (kind, position)


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_line_parses(data):
    reply = parse_reply(data)
    assert isinstance(reply.kind, Kind)
    assert all(np.isfinite(value) for value in reply.position)


@given(st.binary(max_size=2000), st.integers(1, 50))
@settings(deadline=None)
def test_lines_are_the_same_however_the_bytes_arrive(data, size):
    whole, pieces = LineReader(), LineReader()
    expected = whole.feed(data)
    found = [reply for i in range(0, len(data), size) for reply in pieces.feed(data[i : i + size])]
    assert found == expected


def test_an_endless_line_takes_bounded_memory_and_ends_with_the_line():
    reader = LineReader()
    for _ in range(1000):
        assert reader.feed(b"x" * 1000) == []
        assert len(reader._pending) <= 1000
    assert [reply.kind for reply in reader.feed(b"\nOk\n")] == [Kind.NOISE, Kind.OK]


@given(st.lists(st.binary(max_size=90), max_size=8))
@settings(deadline=None, max_examples=150)
def test_the_firmware_survives_any_bytes_and_never_leaves_its_cylinder(pieces):
    wire = Wire()
    wire.settle()
    for piece in pieces:
        wire.send(piece)
        wire.settle(5)
    x, y, z = wire.firmware.machine.target
    assert np.hypot(x, y) <= 170.001
    assert z >= -402.001


@given(st.text(alphabet="GM0123456789 XYZWFSPEIJ.-", min_size=1, max_size=40), st.sampled_from(list(Dialect)))
@settings(deadline=None, max_examples=150)
def test_every_queued_line_is_answered_once(text, dialect):
    wire = Wire(dialect=dialect)
    wire.firmware.take_output()
    wire.settle()
    wire.ask("G28")
    if text[0] in "GM" and "P" not in text:  # a dwell or a way may last for ever
        answer = wire.ask(text).splitlines()[-1]
        assert answer == b"Ok" or answer.startswith(b"Unknow")


@given(st.floats(-1e4, 1e4))
@settings(deadline=None)
def test_numbers_go_out_without_exponents(value):
    text = dialects.number(value)
    assert "e" not in text
    assert float(text) == pytest.approx(value, abs=5.1e-4)
    assert text != "-0"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_command_carries_a_number_that_is_none(value):
    with pytest.raises(InputError, match="finite"):
        dialects.move((0.0, value, -0.3), 0.1)


@pytest.mark.parametrize("text", ["G1 X1\nG28", "é", "G1 " + "X" * 70])
def test_no_line_is_sent_that_the_firmware_would_misread(text):
    with pytest.raises(InputError):
        dialects.line(text)


def test_commands_of_both_dialects():
    assert dialects.move((0.0505, -0.03025, -0.320125), 0.2, 1.0) == "G1 X50.5 Y-30.25 Z-320.125 W57.3 F200"
    assert dialects.close_gripper(Dialect.X1, 0.5, 3) == "M03 S50"
    assert dialects.close_gripper(Dialect.XS, 0.5, 3) == "M03 P3 W128"
    assert dialects.switch_vacuum(Dialect.XS, on=True, output=2) == "M03 D2"
    assert dialects.speed_limits(Dialect.X1, 0.85, 2.0) == ("M203 S850", "M204 A2000")
    assert dialects.speed_limits(Dialect.XS, 0.85, 2.0) == ("M204 A2000",)  # M203 would set the jerk


@pytest.mark.parametrize("text", ["", "rest", "noise@x", "noise@0", "reset@-1"])
def test_faults_that_are_none_are_refused(text):
    with pytest.raises(InputError):
        parse_fault(text)


def test_faults_strike_once_and_where_they_should():
    wire = Wire("X1", Fault(FaultKind.LOST_ACK, 2), Fault(FaultKind.NOISE, 3), Fault(FaultKind.STALL, 5))
    wire.firmware.take_output()
    wire.settle()
    assert wire.ask("G28") == b"Ok\r\n"
    assert wire.ask("M05") == b""
    noisy = wire.ask("M05")
    assert [reply.kind for reply in LineReader().feed(noisy)] == [Kind.NOISE, Kind.NOISE]
    assert wire.ask("M05") == b"Ok\r\n"
    assert wire.ask("G1 X0 Y0 Z-300") == b""
    assert not wire.firmware.idle
