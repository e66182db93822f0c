"""`convdyno tune`: the fastest settings of one network and engine, for the same mathematics."""

from __future__ import annotations

from convdyno import app
from convdyno.cli.options import AsJson, Network, Networks, Quiet, asks, echo_json, new_screen

EXAMPLES = """\b
Examples:
  convdyno tune resnet50 --engine torch
  convdyno tune resnet50 --engine torch --batch 32 --precision bf16 --budget 20m --name fast
  convdyno tune deepmnist --batch max --own
  convdyno bench resnet50 --preset resnet50-torch

\b
Exit codes: 0 done, 2 bad usage, 4 nothing was measured, 5 the default settings failed,
130 or 143 stopped by Ctrl-C or SIGTERM (128 + the signal).
"""


@asks(app.TuneRequest, "tune")
def tune(
    request: app.TuneRequest, networks: Networks = None, network: Network = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Search the settings that give the most images per second.

    These are layout, compilation, threads, buckets and batch. Whatever is given is held. Settings
    are tried as live processes in turns, and the slower half leaves again and again. The winner is
    then measured in fresh rounds beside the default settings, and beside itself with one setting
    changed, which shows what mattered. It becomes a preset for `bench --preset`.
    """
    found = app.tune(request, app.Narrator(quiet=as_json or quiet))
    if as_json:
        echo_json(found.tuning.to_data(found.folder, found.preset, found.kept))
    else:
        found.show(new_screen())
