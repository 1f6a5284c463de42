"""The sim-to-real checks: conditions do what they say, figures are paired, and a stopped run goes on."""

import dataclasses
import json

import numpy as np
import pytest

from keygrasp.cli.main import main
from keygrasp.errors import ConfigurationError, InputError
from keygrasp.protocol import PROTOCOL, SceneSpec
from keygrasp.protocol.depth_cameras import CAMERAS, depth_camera
from keygrasp.trials import build_planner, planner_spec, sim2real_worker
from keygrasp.trials.sim2real import CONDITIONS, SceneResult, Sim2RealConfig, collected
from keygrasp.trials.sim2real_page import verdict, write_page, write_plot
from keygrasp.trials.sim2real_summary import summarise

NAMES = [condition.name for condition in CONDITIONS]


def made_up(count=60, *, delta=lambda k: k % 4 > 0, ur5=lambda k: k % 4 > 0):
    """Results in which every third scene is tail, and friction 0.3 loses every second one."""

    def end(success):
        return "success" if success else "slipped"

    scenes = []
    config = Sim2RealConfig(objects=count, factors=count // 2)
    for k in range(count):
        outcomes = {"delta": end(delta(k)), "ur5": end(ur5(k))}
        if config.has_factors(k):
            outcomes |= {name: end(k % 4 > 0 and (name != "friction 0.3" or k % 8 > 3)) for name in NAMES}
        reach = {"X1": k % 2 == 0, "X1-double": True}
        scenes.append(SceneResult(k, f"object {k // 2}", k % 3 == 0, outcomes, within_reach=reach))
    return collected(config, scenes, 1.0)


def test_figures_are_rates_with_paired_changes():
    summary = summarise(made_up())
    assert summary["scenes"] == {
        "asked": 60, "done": 60, "not_done": 0, "tail": 20, "executed": 60, "out_of_reach": 0,
    }  # fmt: skip
    assert summary["conditions"]["delta"]["difference"]["difference"] == 0
    worse = summary["conditions"]["friction 0.3"]
    assert worse["trials"] == 30
    assert worse["difference"]["difference"] < -0.2
    assert worse["difference"]["interval"][1] < 0
    assert summary["conditions"]["mass × 2"]["difference"]["difference"] == 0
    assert summary["within_reach"]["X1"]["rate"] == 0.5
    assert summary["robots"]["tail"]["difference"]["trials"] == 20
    assert "is met" in verdict(summary)
    json.dumps(summary, allow_nan=False)


def test_a_missed_target_is_said():
    summary = summarise(made_up(delta=lambda k: k % 2 == 0, ur5=lambda k: True))
    assert summary["robots"]["tail"]["difference"]["difference"] == pytest.approx(-0.5)
    assert "is missed" in verdict(summary)


def test_what_is_out_of_reach_is_counted_and_kept_out_of_the_comparison():
    results = made_up()
    first = results.scenes[0]
    lost = dataclasses.replace(first, outcomes={"delta": "no_grasp", "ur5": "no_grasp"}, within_reach={})
    away = dataclasses.replace(results.scenes[3], outcomes={**results.scenes[3].outcomes, "delta": "unreachable"})
    scenes = [lost, away, *(scene for scene in results.scenes if scene.scene not in (0, 3))]
    summary = summarise(collected(results.config, scenes, 1.0))
    assert summary["scenes"]["out_of_reach"] == 2
    assert summary["robots"]["all"]["delta"]["trials"] == 58
    assert summary["conditions"]["mass × 2"]["trials"] == 30
    assert summary["conditions"]["mass × 2"]["outcomes"]["no_grasp"] == 1


def test_page_and_plot_show_every_condition_and_what_is_missing(tmp_path):
    results = made_up()
    summary = summarise(collected(results.config, results.scenes[:40], 1.0))
    page = write_page(summary, tmp_path / "report.html").read_text(encoding="utf-8")
    write_plot(summary, tmp_path / "plot.svg")
    plot = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    for name in NAMES:
        assert name in page
        assert name in plot
    assert "stopped after 40 of 60 scenes" in page


def test_before_anything_is_done_there_is_a_page_too(tmp_path):
    summary = summarise(collected(Sim2RealConfig(objects=5, factors=5), [], 0.0))
    assert "No tail scene" in verdict(summary)
    assert "stopped after 0 of 5" in write_page(summary, tmp_path / "report.html").read_text(encoding="utf-8")
    write_plot(summary, tmp_path / "plot.svg")


def test_objects_with_factors_are_spread_evenly():
    config = Sim2RealConfig(objects=50, factors=10, poses=2)
    chosen = [k for k in range(100) if config.has_factors(k)]
    assert len(chosen) == 20
    assert set(np.diff(chosen)) == {5}
    with pytest.raises(ConfigurationError, match="factors"):
        Sim2RealConfig(objects=5, factors=6)
    with pytest.raises(ConfigurationError, match="objects"):
        Sim2RealConfig(objects=0, factors=0)


@pytest.mark.parametrize("name", CAMERAS)
def test_cameras_are_noisy_quantised_shifted_and_blind_at_edges(name):
    depth = np.full((128, 128), PROTOCOL.camera_height, np.float32)
    depth[40:90, 40:90] -= 0.08
    camera = depth_camera(name)
    images = [camera.image(depth, np.random.default_rng(seed)) for seed in range(6)]
    table = np.array([np.nanmean(image[:30]) for image in images]) - PROTOCOL.camera_height
    assert np.abs(table) == pytest.approx(np.full(6, camera.offset), abs=1e-3)
    assert {-1, 1} == set(np.sign(table))
    steps = images[0][np.isfinite(images[0])] / camera.step
    assert np.abs(steps - np.round(steps)).max() < 1e-2
    rim = np.isnan(images[0][38:42, 42:88]).mean()
    assert rim > 5 * np.isnan(images[0][:30]).mean()
    assert np.nanstd(images[0][:30]) > 1e-3
    with pytest.raises(InputError, match="unknown depth camera"):
        depth_camera("zed")


def test_a_scene_is_executed_by_both_robots_and_under_each_condition(monkeypatch):
    chosen = [c for c in CONDITIONS if c.name in ("kinect class", "5 mm and 2° off", "mass × 2", "1° of play")]
    monkeypatch.setattr(sim2real_worker, "CONDITIONS", chosen)
    planner = build_planner(planner_spec("geometric"))
    result = sim2real_worker._run_scene(0, SceneSpec("036", "E", 7), planner, True)
    assert set(result.outcomes) == {"delta", "ur5", *(c.name for c in chosen)}
    assert set(result.within_reach) == {"X1", "V2", "X1-double"}


def test_an_error_of_calibration_has_its_size_in_a_direction_of_the_scene():
    both = next(c for c in CONDITIONS if c.position and c.turn)
    errors = [sim2real_worker._mount_error(both, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert np.array_equal(errors[0], errors[1])
    assert not np.allclose(errors[0], errors[2])
    for error in errors:
        assert np.linalg.norm(error[:3, 3]) == pytest.approx(both.position)
        assert np.arccos((np.trace(error[:3, :3]) - 1) / 2) == pytest.approx(both.turn)


@pytest.mark.slow
def test_the_command_writes_figures_and_goes_on(tmp_path, capsys):
    arguments = ["sim2real", "--objects", "1", "--factors", "0", "--planner", "geometric", "--workers", "1"]
    arguments += [
        "--report",
        str(tmp_path / "out"),
        "--json",
        str(tmp_path / "f.json"),
        "--plot",
        str(tmp_path / "p.svg"),
    ]
    assert main(arguments) == 0
    journal = (tmp_path / "out" / "journal.jsonl").read_bytes()
    assert main(arguments) == 0
    assert (tmp_path / "out" / "journal.jsonl").read_bytes() == journal
    assert json.loads((tmp_path / "f.json").read_text())["scenes"]["done"] == 1
    assert (tmp_path / "out" / "report.html").is_file()
    assert main([*arguments, "--factors", "1"]) == ConfigurationError.exit_code
    assert "another configuration" in capsys.readouterr().err


def test_an_oracle_is_refused():
    with pytest.raises(InputError, match="behind the image"):
        sim2real_worker.build({"planner": dataclasses.asdict(planner_spec("oracle"))})
