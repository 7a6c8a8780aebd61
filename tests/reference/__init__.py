"""The slow, obvious reference: the prompt contract written a second time, for tests and golden vectors only.

It shares no code with the Rust core and imports nothing from the ``jevmlx`` package, so that agreement means something.
Readability comes before speed everywhere.
"""
