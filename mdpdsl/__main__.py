"""`python -m mdpdsl`."""

from mdpdsl.cli import main

main()
