"""The RP2040 image: how much it takes, and that it does in the emulator what the core does on the host."""

import itertools

import numpy as np
import pytest

from keygrasp.errors import MissingExtraError
from keygrasp.skills import footprint
from keygrasp.skills.building import build_image, symbols
from keygrasp.skills.core import Agent, Event, needs
from keygrasp.skills.development import steps
from keygrasp.skills.emulator import EmulatedRobot, prepare
from keygrasp.skills.link import Kind, start_frame
from keygrasp.skills.millirobot import Millirobot

#: What the image took when this was written; a growth is a decision, so it is made here.
MOST_RAM, MOST_FLASH = 1800, 15000
CLOCK_HZ = 125e6


@pytest.fixture(scope="module")
def image():
    try:
        return build_image()
    except MissingExtraError as error:
        pytest.skip(str(error))


@pytest.fixture
def emulated(image):
    try:
        prepare()
    except MissingExtraError as error:
        pytest.skip(str(error))
    started = []

    def start(seed):
        started.append(EmulatedRobot(Millirobot(seed), image))
        return started[-1]

    yield start
    for each in started:
        each.__exit__(None, None, None)


def on_the_host(seed, count):
    made = steps(Agent(seed), Millirobot(seed), float("inf"))
    return [step.decision for step in itertools.islice(made, count)]


def test_ram_and_flash_do_not_grow(image):
    measured = footprint.measure(image)
    assert measured.ram <= MOST_RAM <= footprint.RAM_LIMIT
    assert measured.flash <= MOST_FLASH
    assert sum(measured.parts.values()) == measured.variables
    assert min(measured.parts.values()) > 0


def test_no_floating_point_heap_or_stdio_is_linked(image):
    names = set(symbols(image / "keygrasp.elf"))
    floats = {n for n in names if n.startswith(("__aeabi_f", "__aeabi_d", "__aeabi_i2", "__aeabi_ui2"))}
    assert floats == set()
    assert not names & {"malloc", "_malloc_r", "_sbrk", "printf", "puts"}
    assert "__aeabi_lmul" in names  # so that the search above is one


def test_the_boot_stage_has_its_checksum(image):
    import binascii

    blocks = (image / "keygrasp.uf2").read_bytes()
    first = blocks[32 : 32 + 256]
    # The boot ROM's CRC-32 takes the highest bit first; reversing bits turns it into the usual one.
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in first[:252])
    usual = binascii.crc32(mirrored) ^ 0xFFFFFFFF
    assert int(f"{usual:032b}"[::-1], 2).to_bytes(4, "little") == first[252:]
    assert len(blocks) == 512 * int(np.ceil((image / "keygrasp.bin").stat().st_size / 256))


@pytest.mark.slow
@pytest.mark.hardware
def test_thousand_steps_are_the_same_on_the_host_and_on_the_emulated_robot(emulated, image):
    count, seed = 1000, 4
    robot = emulated(seed)
    made = list(robot.decisions(seed, count, forget=True))
    assert made == on_the_host(seed, count)
    figures = robot.stop()
    assert robot.motions == [(d.left, d.right, d.milliseconds) for d in made if d.milliseconds][: len(robot.motions)]
    assert len(robot.motions) >= count - 2
    assert figures["decisions"] >= count
    assert figures["most_cycles"] <= 5e-3 * CLOCK_HZ
    assert figures["stack"] <= footprint.stack_bound(image)
    assert figures["watchdog_resets"] == 0
    assert robot.parser.dropped == 0


@pytest.mark.slow
@pytest.mark.hardware
def test_corrupted_and_lost_frames_change_nothing_but_the_time(emulated):
    rng = np.random.default_rng(0)
    damages = itertools.cycle(["lost", "flipped", "none", "cut", "noise", "none"])  # four in a row end a run

    def line(data):
        damage = next(damages) if data else "none"
        place = int(rng.integers(max(len(data), 1)))
        return {
            "lost": b"",
            "flipped": data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :] if data else data,
            "none": data,
            "cut": data[:place],
            "noise": rng.bytes(5) + data,
        }[damage]

    robot = emulated(5)
    assert list(robot.decisions(5, 40, line=line, forget=True)) == on_the_host(5, 40)


@pytest.mark.slow
@pytest.mark.hardware
def test_a_reset_in_mid_skill_keeps_what_was_learned(emulated):
    robot = emulated(6)
    stored = []
    made = robot.decisions(6, 60, forget=True)
    learned = {d.ended for d in made if Event.NEWLY_LEARNED in d.events}
    assert learned
    robot.hear()
    robot.say(reset=True)  # while a motor runs
    hello = hear_one(robot, Kind.HELLO)
    assert hello.payload[0] == 0  # not by the watchdog
    assert hello.payload[1] in (0, 1)
    stored.append(hello.payload[1])
    robot.say(start_frame(7))
    first = next(d for d in robot.decisions(7, 20) if Event.STARTED in d.events)
    assert first.novelty != 50 or set(needs(first.skill)) <= learned
    assert set(needs(first.skill)) <= learned


@pytest.mark.slow
@pytest.mark.hardware
def test_a_program_that_hangs_is_reset_by_the_watchdog(emulated):
    robot = emulated(7)
    list(robot.decisions(7, 3, forget=True))
    robot.hear()
    robot.say(hang=True)
    assert hear_one(robot, Kind.HELLO).payload[0] == 1


@pytest.mark.slow
@pytest.mark.hardware
def test_worn_flash_is_noticed_and_the_robot_goes_on(emulated):
    robot = emulated(8)
    hear_one(robot, Kind.HELLO)
    robot.say(start_frame(8, forget=True), worn=[0])
    list(robot.decisions(8, 4))
    slots = []
    from keygrasp.skills.link import Frame

    for worn in ([], [1]):
        robot.hear()
        robot.say(Frame(Kind.STORE), worn=worn)
        slots.append(hear_one(robot, Kind.STORED, answer=True).payload[0])
        robot.say()
    assert slots == [1, 255]
    assert len(list(robot.decisions(8, 5))) == 5


@pytest.mark.slow
@pytest.mark.hardware
def test_a_robot_that_gets_no_pose_stands_still_and_asks_again(emulated):
    robot = emulated(9)
    list(robot.decisions(9, 6, forget=True))
    kinds = []
    while Kind.DECISION not in kinds[1:]:
        kinds += [frame.kind for frame in robot.hear()]
        robot.say()
    assert kinds.count(Kind.ASK) == 4
    again = list(robot.decisions(9, 4))
    assert again[-1].milliseconds > 0


def hear_one(robot, kind, *, answer=False):
    for _ in range(200):
        replies = []
        for frame in robot.hear():
            if frame.kind == kind:
                return frame
            if answer and frame.kind == Kind.ASK:
                replies.append(robot._answer(frame.sequence))
        robot.say(*replies)
    raise AssertionError(f"no {kind!r} came")
