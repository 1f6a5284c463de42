"""The serial link: Python's and the core's implementation agree, and nothing damaged gets through."""

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.errors import InputError
from keygrasp.skills.core import Pose, library
from keygrasp.skills.link import MOST_PAYLOAD, Frame, Kind, Parser, crc16, decision_in, encode, pose_frame, start_frame

frames = st.builds(Frame, st.integers(0, 255), st.integers(0, 255), st.binary(max_size=MOST_PAYLOAD))


class RawParser(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint8),
        ("sequence", ctypes.c_uint8),
        ("length", ctypes.c_uint8),
        ("payload", ctypes.c_uint8 * MOST_PAYLOAD),
        ("check", ctypes.c_uint16),
        ("received", ctypes.c_uint16),
        ("state", ctypes.c_uint8),
        ("unused", ctypes.c_uint8),
        ("dropped", ctypes.c_uint16),
    )


def parsed_by_the_core(data):
    parser = RawParser()
    parse = library().kg_parse
    parse.restype = ctypes.c_bool
    return [
        Frame(parser.type, parser.sequence, bytes(parser.payload[: parser.length]))
        for byte in data
        if parse(ctypes.byref(parser), ctypes.c_uint8(byte))
    ]


def sent_by_the_core(frame):
    sent = bytearray()
    put = ctypes.CFUNCTYPE(None, ctypes.c_uint8)(sent.append)
    library().kg_send(put, frame.kind, frame.sequence, frame.payload, len(frame.payload))
    return bytes(sent)


@settings(deadline=None)
@given(st.lists(frames, max_size=4))
def test_both_sides_write_and_read_the_same(sequence):
    data = b"".join(map(encode, sequence))
    assert data == b"".join(map(sent_by_the_core, sequence))
    assert parsed_by_the_core(data) == sequence
    assert Parser().feed(data) == sequence


@settings(deadline=None)
@given(frames, st.data())
def test_a_corrupted_frame_is_dropped_and_the_line_recovers(frame, data):
    good = encode(frame)
    place = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[place] ^= data.draw(st.integers(1, 255))
    # What a damaged length swallows at most is a frame's length; after that both hear again.
    stream = bytes(bad) + bytes(2 * MOST_PAYLOAD) + good
    for found in (parsed_by_the_core(stream), Parser().feed(stream)):
        assert found[-1:] == [frame]
        assert len(found) == 1


@settings(deadline=None)
@given(frames, st.data())
def test_a_frame_cut_short_is_dropped(frame, data):
    good = encode(frame)
    stream = good[: data.draw(st.integers(1, len(good) - 1))] + bytes(2 * MOST_PAYLOAD) + good
    assert parsed_by_the_core(stream)[-1:] == [frame]
    parser = Parser()
    assert parser.feed(stream)[-1:] == [frame]


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_noise_never_breaks_a_parser(noise):
    parser = Parser()
    parser.feed(noise)
    parsed_by_the_core(noise)
    assert len(parser._bytes) <= MOST_PAYLOAD + 7


def test_checksum_is_the_published_one():
    assert crc16(b"123456789") == 0x29B1


def test_another_version_is_refused():
    data = bytearray(encode(Frame(Kind.ASK)))
    data[1] = 2
    data[-2:] = crc16(bytes(data[1:-2])).to_bytes(2, "little")
    assert Parser().feed(bytes(data)) == parsed_by_the_core(bytes(data)) == []


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="32"):
        encode(Frame(Kind.POSE, 0, bytes(33)))
    with pytest.raises(InputError, match="no decision"):
        decision_in(Frame(Kind.DECISION, 0, bytes(3)))
    with pytest.raises(InputError, match="unknown skill"):
        decision_in(Frame(Kind.DECISION, 0, bytes([0] * 6 + [77] * 26)))


def test_an_unseen_robot_gets_an_empty_answer():
    assert pose_frame(None, 7) == Frame(Kind.POSE, 7)
    assert pose_frame(Pose(1.0, -0.5, 0.0), 7).payload == bytes.fromhex("0000010000 80ffff 00000000".replace(" ", ""))
    assert start_frame(1, forget=True).kind == Kind.FORGET
