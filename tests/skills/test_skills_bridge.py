"""The host's side of the serial link, against a simulated robot behind a pseudo-terminal: every way it can go wrong."""

import time

import pytest

from keygrasp.errors import MissingExtraError, RobotError
from keygrasp.skills.bridge import LinkState, LinkTimes, RobotLink, SeenPose
from keygrasp.skills.core import Event, Pose
from keygrasp.skills.link import start_frame
from keygrasp.skills.millirobot import Millirobot
from keygrasp.skills.terminals import SimulatedTerminal

pytest.importorskip("serial")
SCALE = 40.0
QUICK = LinkTimes(pose=0.3, silence=1.2, reconnect=0.05)


class Bench:
    """A robot, a camera and the host's end of the line."""

    def __init__(self, *, firmware=False, **start):
        self.robot = Millirobot(2)
        self.terminal = SimulatedTerminal(self.robot, scale=SCALE, firmware=firmware)
        self.visible, self.late = True, 0.0
        self.decisions, self.restarts = [], []
        self.link = RobotLink(
            self.terminal.path,
            self._seen,
            on_decision=self.decisions.append,
            on_restart=self.restarts.append,
            times=QUICK,
        )
        self.frame = start_frame(3, **{"forget": True, **start})

    def _seen(self):
        return SeenPose(time.time() - self.late, self.robot.look()) if self.visible else SeenPose(0.0, Pose(0, 0, 0))

    def __enter__(self):
        self.terminal.__enter__()
        self.link.open()
        self.link.start(self.frame)
        return self

    def __exit__(self, *_):
        self.link.close()
        self.terminal.close()

    def wait(self, ready, seconds=15.0):
        ends = time.monotonic() + seconds
        while not ready():
            assert time.monotonic() < ends, (self.link.state, self.link.counts, self.link.complaint)
            time.sleep(0.01)

    def more(self, count=4):
        before = len(self.decisions)
        self.wait(lambda: len(self.decisions) >= before + count)
        return self.decisions[before:]


def test_a_robot_develops_over_the_line_and_halts_when_it_is_told():
    with Bench() as bench:
        bench.wait(lambda: any(Event.NEWLY_LEARNED in d.events for d in bench.decisions))
        assert bench.link.state is LinkState.RUNNING
        assert bench.link.counts.answers >= len(bench.decisions) - 1
        assert bench.link.complaint == ""
        assert bench.link.store() in (0, 1)
        assert bench.link.halt()
        assert bench.link.state is LinkState.IDLE
        count = len(bench.decisions)
        time.sleep(0.3)
        assert len(bench.decisions) == count
        bench.link.start(start_frame(4))
        assert bench.more()


@pytest.mark.slow
@pytest.mark.hardware
def test_the_same_with_the_image_in_the_emulator():
    try:
        bench = Bench(firmware=True)
    except MissingExtraError as error:
        pytest.skip(str(error))
    with bench:
        bench.wait(lambda: any(Event.NEWLY_LEARNED in d.events for d in bench.decisions), 30.0)
        assert bench.link.store() in (0, 1)
        assert bench.link.halt()


def test_a_lost_pose_ends_the_run_and_is_told_until_it_comes_back():
    with Bench() as bench:
        bench.wait(lambda: bench.decisions and bench.decisions[-1].skill)
        bench.visible = False
        bench.wait(lambda: any(Event.ABANDONED in d.events for d in bench.decisions))
        assert bench.link.counts.unseen
        assert "last was taken" in bench.link.complaint
        assert bench.more(2)[-1].milliseconds == 0
        bench.visible = True
        bench.wait(lambda: bench.decisions[-1].milliseconds > 0)
        assert bench.link.complaint == ""


def test_a_pose_from_before_the_question_is_no_answer():
    with Bench() as bench:
        bench.more()
        bench.late = 30.0
        bench.wait(lambda: "29." in bench.link.complaint and "s before" in bench.link.complaint)


def test_silence_is_noticed_and_so_is_the_end_of_it():
    with Bench() as bench:
        bench.more()
        bench.terminal.line.unplugged.set()
        bench.wait(lambda: bench.link.state is LinkState.LOST)
        assert not bench.link.halt(0.2)
        bench.terminal.line.unplugged.clear()
        bench.more()
        assert bench.link.state is LinkState.RUNNING
        assert bench.link.counts.losses == 1


def test_a_reset_in_mid_skill_starts_again_with_what_was_stored():
    with Bench() as bench:
        bench.wait(lambda: any(Event.NEWLY_LEARNED in d.events for d in bench.decisions))
        bench.terminal.program.reset.set()
        bench.wait(lambda: bench.restarts)
        assert bench.restarts == [False]
        started = next(d for d in bench.more(40) if Event.STARTED in d.events)
        assert started.novelty != 50  # it has run before


def test_a_port_that_vanishes_is_opened_again_when_it_is_back(tmp_path):
    with Bench() as bench:
        bench.more()
        other = SimulatedTerminal(Millirobot(2), scale=SCALE)
        bench.link.path = str(tmp_path / "port")
        bench.link._port.close()
        bench.wait(lambda: bench.link.state is LinkState.LOST)
        with other:
            (tmp_path / "port").symlink_to(other.path)
            bench.robot = other.robot
            bench.more()
            assert bench.link.state is LinkState.RUNNING
            bench.link.close()


def test_worn_flash_is_an_error_in_words_and_the_robot_goes_on():
    with Bench() as bench:
        bench.terminal.program.worn = True
        bench.more()
        with pytest.raises(RobotError, match="worn"):
            bench.link.store()
        bench.more()


def test_a_port_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RobotError, match="there is no port"):
        RobotLink(str(tmp_path / "none"), lambda: None).open()
