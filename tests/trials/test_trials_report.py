"""The report of a small run made by hand: its figures, its safety, and that it can be written again."""

import html.parser
import json
import re

import pytest

pytest.importorskip("cv2")
pytest.importorskip("jinja2")
pytest.importorskip("pybullet")

from keygrasp.errors import InputError, StorageError
from keygrasp.trials import report_pictures
from keygrasp.trials.config import TrialsConfig
from keygrasp.trials.journal import Journal
from keygrasp.trials.planners import planner_spec
from keygrasp.trials.records import AttemptRecord, TrialRecord
from keygrasp.trials.report import rewrite_report, write_report
from keygrasp.trials.report_charts import rate_bar, stacked_bar
from keygrasp.trials.report_html import render
from keygrasp.trials.report_model import Picture, PlannerSummary, Rate, Report
from keygrasp.trials.report_pictures import choose_failures
from keygrasp.trials.report_reading import config_of, read_journal
from keygrasp.trials.report_summary import report_of
from keygrasp.trials.running import Results

_HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)> & 'quoted'"
_GRASP = [0.0, 0.0, 0.01, 0.3, 0.05, 0.8]


def _record(scene, planner, outcome, **changes):
    attempt = AttemptRecord(
        outcome,
        message=f"it ended as {outcome}",
        grasp=None if outcome == "no_grasp" else _GRASP,
        plan_ms=10.0 + scene,
        execute_s=0.5,
        evaluations=100 if planner == "random" else 0,
        probability=0.9 if planner == "random" else None,
    )
    values = {
        "object_name": f"object {scene}",
        "category": "flat" if scene % 2 else "compact",
        "rule": "E",
        "source": "embedded",
        "seed": scene,
        "robot": "gripper",
        "build_s": 0.25,
        "attempts": (attempt,),
        "robust_successes": 9,
        "robust_trials": 10,
        **changes,
    }
    return TrialRecord(scene=scene, planner=planner, **values)


_OUTCOMES = {
    "reference": ["success", "slipped", "no_grasp", "slipped"],
    "random": ["success", "success", "shaken", "slipped"],
}


@pytest.fixture
def results():
    config = TrialsConfig(planners=(planner_spec("reference"), planner_spec("random")), names=("a", "b", "c", "d"))
    records = tuple(
        _record(scene, planner, outcomes[scene]) for scene in range(4) for planner, outcomes in _OUTCOMES.items()
    )
    return Results(
        config, records, 12.0, {"command": "keygrasp trials --seed 0", "seed": 0, "versions": {"numpy": "9"}}
    )


class _Page(html.parser.HTMLParser):
    """Tags, texts, and whether tags are nested rightly."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.open, self.addresses = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def _parsed(text):
    page = _Page()
    page.feed(text)
    page.close()
    assert page.open == [], "every tag is closed"
    return page


def test_the_page_gives_the_figures(results, tmp_path):
    page = _parsed(write_report(results, tmp_path, pictures=0).read_text())
    assert "reference 25.0% 1/4" in page.text
    assert "random 50.0% 2/4" in page.text
    assert "+25.0 points" in page.text
    assert page.text.count("slipped") >= 2
    assert "keygrasp trials --seed 0" in page.text
    assert "numpy 9" in page.text
    assert "KG-1" in page.text


def test_the_page_needs_nothing_else(results, tmp_path):
    text = write_report(results, tmp_path, pictures=0).read_text()
    page = _parsed(text)
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert page.addresses == []
    assert not re.search(r"(https?:)?//[a-z]|@import|url\(", text)
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text


def test_json_lies_beside_it(results, tmp_path):
    write_report(results, tmp_path, pictures=0)
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["planners"]["random"]["single_shot"]["successes"] == 2
    assert data["provenance"]["seed"] == 0


def test_costs_are_summed_over_attempts(results):
    report = report_of(results.summary(), results.records)
    assert report.planners[0].costs_s == pytest.approx({"scene": 1.0, "planning": 0.046, "physics": 2.0})


def test_causes_are_counted_without_successes(results):
    reference, random = report_of(results.summary(), results.records).planners
    assert reference.causes == {"slipped": 2, "no_grasp": 1}
    assert random.causes == {"shaken": 1, "slipped": 1}
    assert next(iter(reference.causes)) == "slipped"


def test_a_run_that_was_stopped_says_so(results):
    report = report_of(results.summary(), results.records, expected=9)
    assert report.notices == ("The run was stopped after 4 of 9 scenes; the figures are of these.",)
    assert report_of(results.summary(), results.records, expected=4).notices == ()


def test_faults_are_told(results):
    records = (*results.records, _record(4, "random", "success", attempts=(), fault="a worker died"))
    report = report_of(Results(results.config, records, 0.0, {}).summary(), records)
    assert any("random: 1 trial(s) could not be carried out" in notice for notice in report.notices)


def test_hostile_names_stay_text():
    rate = Rate.of(1, 2)
    planner = PlannerSummary(_HOSTILE, {"single_shot": rate}, {_HOSTILE: rate}, {_HOSTILE: 1}, costs_s={_HOSTILE: 1.0})
    report = Report(
        _HOSTILE,
        {_HOSTILE: _HOSTILE},
        (planner,),
        {"command": _HOSTILE, "machine": {_HOSTILE: _HOSTILE}, "versions": {_HOSTILE: _HOSTILE}},
        (Picture(_HOSTILE, _HOSTILE, _HOSTILE, b"png"),),
        (_HOSTILE,),
    )
    text = render(report)
    page = _parsed(text)
    assert "script" not in page.tags
    assert page.tags.count("img") == 1
    assert [address for address in page.addresses if not address.startswith("data:image/png;base64,")] == []
    assert page.text.count("alert(1)") >= 10
    assert "<script" not in text


def test_planners_keep_their_order():
    rates = {"single_shot": Rate.of(1, 2)}
    names = ["zeta", "alpha", "mid"]
    pictures = tuple(Picture(name, "t", "d", b"") for name in names)
    report = Report("t", {}, tuple(PlannerSummary(n, rates) for n in names), {}, pictures)
    headings = re.findall(r"<h3>(\w+)</h3>", render(report))
    assert headings == names


def test_an_empty_run_gives_a_page():
    page = _parsed(render(Report("nothing", {}, (), {})))
    assert "nothing" in page.text


@pytest.mark.parametrize(("value", "low", "high"), [(0.5, 0.2, 0.8), (0, 0, 1), (1, 1, 1), (float("nan"), -3, 7)])
def test_bars_stay_within_their_place(value, low, high):
    numbers = [float(n) for n in re.findall(r' (?:x|x1|x2|width)="([^"]*)"', str(rate_bar(value, low, high)))]
    assert len(numbers) >= 8
    assert all(0 <= number <= 100 for number in numbers)


def test_a_stack_fills_its_share():
    widths = [float(n) for n in re.findall(r'class="c\d" [^>]*width="([^"]*)"', str(stacked_bar([(0, 1), (1, 3)], 8)))]
    assert widths == [12.5, 37.5]
    assert 'class="c0"' in stacked_bar([(0, 5)], 0)


def test_a_rate_without_trials_has_no_bar_of_its_own():
    rate = Rate.of(0, 0)
    assert (rate.value, rate.low, rate.high) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("summary", [{}, {"planners": {}}, {"planners": {"a": 3}, "config": {}, "provenance": {}}])
def test_a_broken_summary_is_an_input_error(summary):
    with pytest.raises(InputError, match="can't be shown"):
        report_of(summary)


def test_a_report_can_be_written_again(results, tmp_path):
    write_report(results, tmp_path, pictures=0)
    first = (tmp_path / "report.html").read_text()
    with Journal(tmp_path / "journal.jsonl", results.config.identity()) as journal:
        journal.append([record.to_json() for record in results.records])
    (tmp_path / "report.html").unlink()
    assert rewrite_report(tmp_path, pictures=0) == tmp_path / "report.html"
    assert (tmp_path / "report.html").read_text() == first


def test_a_journal_of_another_run_is_not_mixed_in(results, tmp_path):
    write_report(results, tmp_path, pictures=0)
    with Journal(tmp_path / "journal.jsonl", {**results.config.identity(), "seed": 5}) as journal:
        journal.append([record.to_json() for record in results.records])
    page = rewrite_report(tmp_path / "results.json", tmp_path / "again.html", pictures=0)
    assert "Where the time went" not in page.read_text()


def test_a_configuration_comes_back_from_its_identity(results):
    config = TrialsConfig(
        planners=(planner_spec("geometric", max_candidates=3),), rule="A", seed=4, names=("a",), poses=2
    )
    assert config_of(json.loads(json.dumps(config.identity())), "x").identity() == config.identity()


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", '{"config": {}}\n{"scene": 1}\n', "\x00\n"])
def test_a_broken_journal_is_an_input_error(text, tmp_path):
    (tmp_path / "journal.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"journal|record"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_journal_of_a_run_that_never_began_says_so(tmp_path):
    (tmp_path / "journal.jsonl").touch()
    with pytest.raises(InputError, match=r"is empty.*Start the run again"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_torn_last_line_is_left_out(results, tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path, results.config.identity()) as journal:
        journal.append([record.to_json() for record in results.records])
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert len(read_journal(path)[1]) == len(results.records) - 1


def test_causes_take_turns_among_the_pictures():
    outcomes = ["slipped", "slipped", "slipped", "success", "shaken", "no_grasp", "slipped"]
    records = [_record(scene, "p", outcome) for scene, outcome in enumerate(outcomes)]
    chosen = choose_failures(records, 4)
    assert [record.first.outcome for record in chosen] == ["slipped", "shaken", "no_grasp", "slipped"]
    assert [record.scene for record in chosen] == [0, 4, 5, 1]
    assert choose_failures(records, 0) == []
    assert len(choose_failures(records, 99)) == 6


def test_a_scene_that_cannot_be_made_again_is_counted(results, monkeypatch, tmp_path):
    def refuse(spec, robot):
        raise InputError("gone")

    monkeypatch.setattr(report_pictures, "build_scene", refuse)
    text = write_report(results, tmp_path, pictures=3).read_text()
    assert "3 scene(s) could not be made again" in text
    assert "<img" not in text


def test_a_negative_number_of_pictures_is_refused(results, tmp_path):
    with pytest.raises(InputError, match="pictures"):
        write_report(results, tmp_path, pictures=-1)


def test_a_place_that_cannot_be_written_is_a_storage_error(results, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        write_report(results, tmp_path / "file" / "deeper", pictures=0)


@pytest.mark.slow
def test_pictures_of_a_real_failure(tmp_path):
    config = TrialsConfig(planners=(planner_spec("reference"),), names=("012",))
    records = tuple(_record(0, "reference", "slipped", object_name="012", seed=7) for _ in range(1))
    seen = []
    results = Results(config, records, 1.0, {})
    text = write_report(results, tmp_path, on_scene=lambda done, total: seen.append((done, total))).read_text()
    assert text.count('<img src="data:image/png;base64,iVBOR') == 1
    assert "it ended as slipped" in text
    assert seen == [(1, 1)]
