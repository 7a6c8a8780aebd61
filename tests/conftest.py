"""What must be in place before any test imports MLX."""

from jevmlx import blas

# Importing MLX binds its BLAS at once.
blas.enable()
