"""What tests share."""

import pytest

import jevmlx


@pytest.fixture(scope="session")
def engine():
    """The embedded model, loaded once."""
    engine = jevmlx.load("embedded")
    yield engine
    engine.close()
