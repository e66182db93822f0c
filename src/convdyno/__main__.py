"""`python -m convdyno`."""

from convdyno.cli.main import main

main()
