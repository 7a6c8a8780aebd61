"""Scoring: from a prompt and the tokens that may follow it to logits. Only the files named ``mlx*`` import MLX."""
