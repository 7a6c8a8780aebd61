"""``python -m jevmlx``: the command line."""

from .cli import main

main()
