"""Typed decisions from a local language model."""
