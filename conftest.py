"""Runs the examples of the documentation, and what must be in place before any of them imports MLX."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from jevmlx import blas

# Importing MLX binds its BLAS at once.
blas.enable()

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/*.md"]).pytest()
