"""The command that repeats a run, from what its folder keeps."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import Any

from mdpdsl.compile.model import Model, read_source, shipped_models
from mdpdsl.compile.stored import StoredModel
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.explore.settings import settings_from
from mdpdsl.runs.directory import EXPLORED, MODEL
from mdpdsl.runs.records import LogRecord

#: Settings whose option has another name, or another form.
_OPTIONS = {"most_backups": "--backups", "purpose": "--for"}
_SWITCHES = {
    "discounts_last": ("--discount-last", "--no-discount-last"),
    "strict": ("--strict", "--no-strict"),
}
#: Settings that are given in other ways, or that no option changes.
_WITHOUT_OPTION = ("steps", "tolerance")


def repeating_command(run: RunResult) -> str | None:
    """Return the command that repeats a run; None if the live system belongs to a program."""
    kind, configuration = run.kind, run.configuration
    if kind == "estimate":
        words = ["mdpdsl", "estimate", _model(run), *_files(configuration.settings["files"])]
        words += _estimate_options(configuration.settings)
    else:
        system = configuration.system
        if system is not None and system.kind != "gymnasium":
            return None
        words = ["mdpdsl", "explore", _model(run), *_changed_settings(run)]
        words += ["--steps", str(configuration.settings["steps"])]
        words += ["--seed", str(configuration.seed)]
        if system is not None:
            words += ["--env", str(system.env)]
            for name, value in (system.arguments or {}).items():
                words += ["--env-arg", f"{name}={json.dumps(value)}"]
        else:
            words += ["--trials", str(configuration.trials)]
        if configuration.options.log is not None:
            words += _log_options(configuration.options.log)
        if configuration.property is not None:
            words += ["--property", configuration.property]
        if configuration.warm_start is not None:
            for source in configuration.warm_start.sources:
                words += ["--warm-start", source]
    words += _model_options(run)
    return shlex.join(words)


def _model(run: RunResult) -> str:
    """Return the name of a shipped model, or the path of the model that the run keeps."""
    if isinstance(run.model, StoredModel):
        return run.model.provenance.path if run.path is None else str(run.path / EXPLORED)
    name = run.configuration.model
    if name in shipped_models() and read_source(name).text == run.model.source.text:
        return name
    return f"{name}.mdp" if run.path is None else str(run.path / MODEL)


def _model_options(run: RunResult) -> list[str]:
    words = []
    if not isinstance(run.model, StoredModel):
        usual = Model(run.model.source).parameters
        for name, value in run.configuration.parameters.items():
            if usual.get(name) != value:
                words += ["--set", f"{name}={_setting(value)}"]
    options = run.configuration.options
    if options.all_states and run.kind == "explore":
        words.append("--all-states")
    if options.max_states is not None:
        words += ["--max-states", str(options.max_states)]
    if options.learn is not None:
        words += ["--learn", options.learn]
    return words


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _changed_settings(run: RunResult) -> list[str]:
    """Return options for the settings that differ from those of the model's `explore` block."""
    usual = asdict(settings_from(run.model.checked.explore))
    words = ["--algorithm", str(run.configuration.settings["algorithm"])]
    for name, value in run.configuration.settings.items():
        if name == "algorithm" or name in _WITHOUT_OPTION or usual.get(name) == value:
            continue
        if name == "simulate" and run.kind != "explore":
            continue
        if name in _SWITCHES:
            words.append(_SWITCHES[name][0 if value else 1])
            continue
        absent = {"horizon": "inf", "eta": "auto"}.get(name)
        if value is None and absent is None:
            continue
        option = _OPTIONS.get(name, "--" + name.replace("_", "-"))
        words += [option, absent if value is None and absent else f"{value}"]
    return words


def _files(files: list[dict[str, Any]]) -> list[str]:
    return [str(file["path"]) for file in files]


def _estimate_options(settings: Any) -> list[str]:
    words = ["--delta", f"{settings['delta']:g}"]
    for name in ("sets", "support"):  # estimates of version 1 have neither
        if name in settings:
            words += [f"--{name}", str(settings[name])]
    if settings["prior"]:
        words += ["--prior", f"{settings['prior']:g}"]
    if settings["time_step"] is not None:
        words += ["--time-step", f"{settings['time_step']:g}"]
    return words + (["--separate-files"] if settings["separate_files"] else [])


def _log_options(log: LogRecord) -> list[str]:
    words = [word for file in log.files for word in ("--log", file.path)]
    if log.time_step is not None:
        words += ["--time-step", f"{log.time_step:g}"]
    words += ["--separate-files"] if log.separate_files else []
    return [*words, "--offer", log.offer]
