"""`convdyno data`: data sets got, looked into, converted and made."""

from __future__ import annotations

import typer

EXAMPLES = """\b
Examples:
  convdyno data get mnist
  convdyno data info imagenet/
  convdyno data convert imagenet/ records/ --to tfrecord --shards 1024
  convdyno data make photos/ --images 2000 --classes 10
"""

app = typer.Typer(
    help="Data sets: get, info, convert, make.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXAMPLES,
)
