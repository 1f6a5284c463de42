"""Reports of trials: one HTML file that needs nothing else, and the figures as JSON beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from keygrasp.errors import InputError
from keygrasp.files import write_text
from keygrasp.trials.records import TrialRecord
from keygrasp.trials.report_html import render
from keygrasp.trials.report_model import Report
from keygrasp.trials.report_reading import (
    JOURNAL_FILE,
    REPORT_FILE,
    SUMMARY_FILE,
    config_of,
    read_journal,
    read_summary,
)
from keygrasp.trials.report_spent import telling_records
from keygrasp.trials.report_summary import report_of

if TYPE_CHECKING:
    from keygrasp.trials.running import Results

#: Pictures of failures of each planner.
PICTURES = 12
#: Called after each scene that is drawn: how many are done, how many there are.
OnScene = Callable[[int, int], None]


def write_report(results: Results, folder: Path, *, pictures: int = PICTURES, on_scene: OnScene | None = None) -> Path:
    """Write ``report.html`` and ``results.json`` into a folder.

    Args:
        results: What a run found; one that was stopped is reported as such.
        folder: Where to write; made if it doesn't exist.
        pictures: Most pictures of failures of each planner; their scenes are made again for it. 0 draws none.
        on_scene: Progress of the pictures.

    Returns:
        Path of the page.

    Raises:
        StorageError: If they can't be written.
        MissingExtraError: If the extra ``grasp`` isn't installed.
    """
    results.write_json(folder / SUMMARY_FILE)
    report = report_of(results.summary(), results.records, expected=results.config.expected_scenes())
    return _write(_illustrated(report, results.records, pictures, on_scene), folder / REPORT_FILE)


def rewrite_report(
    source: Path, target: Path | None = None, *, pictures: int = PICTURES, on_scene: OnScene | None = None
) -> Path:
    """Write the page again from what a run left on disk.

    Args:
        source: Folder of results, or the JSON file in it. Without the journal beside it the page has no pictures.
        target: Where to write the page; ``report.html`` beside the summary where it is not given.
        pictures: Most pictures of failures of each planner.
        on_scene: Progress of the pictures.

    Returns:
        Path of the page.

    Raises:
        InputError: If the results can't be read.
        StorageError: If the page can't be written.
    """
    summary = read_summary(source)
    folder = source if source.is_dir() else source.parent
    records: tuple[TrialRecord, ...] = ()
    expected = None
    if (folder / JOURNAL_FILE).is_file():
        identity, found = read_journal(folder / JOURNAL_FILE)
        if identity == summary["config"]:
            records, expected = found, config_of(identity, str(folder / JOURNAL_FILE)).expected_scenes()
    report = report_of(summary, records, expected=expected)
    return _write(_illustrated(report, records, pictures, on_scene), target or folder / REPORT_FILE)


def _illustrated(report: Report, records: tuple[TrialRecord, ...], limit: int, on_scene: OnScene | None) -> Report:
    if limit < 0:
        raise InputError(f"the number of pictures must be at least 0, not {limit}")
    if limit == 0 or not records:
        return report
    from keygrasp.trials.report_pictures import failure_pictures, record_pictures

    pictures, lost = failure_pictures(records, limit=limit, on_scene=on_scene)
    notices, spent = report.notices, report.spent
    if spent is not None:
        drawn, missing = record_pictures(telling_records(records, spent.planner), on_scene=on_scene)
        spent, lost = dataclasses.replace(spent, pictures=drawn), lost + missing
    if lost:
        notices = (*notices, f"{lost} scene(s) could not be made again for a picture.")
    return dataclasses.replace(report, pictures=pictures, notices=notices, spent=spent)


def _write(report: Report, path: Path) -> Path:
    write_text(path, render(report))
    return path
