"""What the published description allows, and what it does not, never makes the server fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from served import Server, small_model


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server("-m", f"small={small_model(tmp_path_factory.mktemp('fuzz') / 'small')}")
    yield server
    assert server.stop() == 0


def test_requests_made_from_the_description(server, tmp_path):
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/openapi.json"),
        *("--checks", checks, "--max-examples", "30", "--generation-deterministic", "--no-color"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout
    # Some were decided, so that it was not all about refusals.
    assert any(event["status"] == 200 and event["path"] == "/v1/decide" for event in server.events("request"))
    assert [event for event in server.log if event.get("status", 0) >= 500 or event.get("level") == "error"] == []
