"""Reading what a run wrote: its summary, and its journal where it lies beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keygrasp.configuration import config_from
from keygrasp.errors import InputError
from keygrasp.files import read_json
from keygrasp.trials.config import TrialsConfig
from keygrasp.trials.records import TrialRecord

Json = dict[str, Any]

#: Names of the files in a folder of results.
SUMMARY_FILE = "results.json"
JOURNAL_FILE = "journal.jsonl"
REPORT_FILE = "report.html"

_MAX_JOURNAL = 512 * 2**20


def read_summary(path: Path) -> Json:
    """Read the summary that a run wrote, from its JSON file or from the folder of results that holds it.

    Raises:
        InputError: If it is missing or isn't such a file.
    """
    file = path / SUMMARY_FILE if path.is_dir() else path
    data = read_json(file)
    if not isinstance(data, dict) or not isinstance(data.get("planners"), dict) or "config" not in data:
        raise InputError(f"{file} holds no results of trials", "Give a file that 'keygrasp trials' wrote")
    return data


def read_journal(path: Path) -> tuple[Json, tuple[TrialRecord, ...]]:
    """Read the configuration and the records of a journal without taking it; a last line cut short is left out.

    Raises:
        InputError: If it is missing, too large or not a journal.
    """
    try:
        if path.stat().st_size > _MAX_JOURNAL:
            raise InputError(f"{path} is larger than {_MAX_JOURNAL // 2**20} MiB", "Is it a journal?")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"can't read {path}: {reason}", "Give the folder of a run that was started before") from error
    lines = text[: text.rfind("\n") + 1].splitlines()
    if not lines:
        raise InputError(f"{path} is empty: its run was stopped before it began", "Start the run again")
    try:
        header, *rows = [json.loads(line) for line in lines]
        return dict(header["config"]), tuple(TrialRecord.from_json(row) for row in rows)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a journal of trials ({error})", "Name another folder") from error


def config_of(identity: Json, where: str) -> TrialsConfig:
    """The configuration whose :meth:`~keygrasp.trials.config.TrialsConfig.identity` is given.

    Raises:
        ConfigurationError: If it has unknown or wrong values.
    """
    data = {key: value for key, value in identity.items() if key not in ("protocol", "version")}
    planners = [
        {key: value for key, value in planner.items() if key != "files"} for planner in data.get("planners", [])
    ]
    return config_from({**data, "planners": planners}, TrialsConfig, where=where)
