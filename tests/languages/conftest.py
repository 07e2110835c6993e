"""A test that hangs shows where, and ends."""

import faulthandler

import pytest

LIMIT_SECONDS = 120


@pytest.fixture(autouse=True)
def limit():
    faulthandler.dump_traceback_later(LIMIT_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
