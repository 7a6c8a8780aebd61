"""The server: the same bits as the library, and every way in which a request can go wrong."""

import concurrent.futures
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx2 as httpx
import pytest

import jevmlx
from jevmlx.audit import verify
from served import Server, small_model

TEXT = "My card was charged twice and nobody answers."
SCHEMA = {
    "team": {"choices": ["billing", "technical", "sales"], "description": "Who should answer"},
    "urgent": {"type": "boolean", "description": "Needs a reply today"},
    "case": {"choices": ["refund", "invoice"], "depends_on": "team", "allow_none_of_above": True},
    "topics": {"type": "multi", "choices": ["refund", "outage"]},
}
FLAG = {"urgent": {"type": "boolean"}}
# Takes seconds on the small model: many questions, each asked alone.
SLOW = {f"f{at}": {"choices": [f"choice {n} of {at}" for n in range(60)]} for at in range(200)}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture(scope="module")
def server(small):
    server = Server("-m", "embedded", "-m", f"small={small}")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=server.url, timeout=120) as client:
        yield client


def ask(client, schema=FLAG, context=TEXT, **more):
    return client.post("/v1/decide", json={"schema": schema, "context": context, **more})


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize(
    "options", [{}, {"scoring": "slots", "permutations": 2}, {"temperature": 2.0, "legal_mass": False}]
)
def test_the_same_bits_as_from_python(client, engine, options):
    expected = json.loads(engine.decide(SCHEMA, TEXT, **options).to_json())
    answer = ask(client, SCHEMA, **options)
    assert answer.status_code == 200
    found = answer.json()
    for part in ("values", "fields", "provenance"):
        assert found[part] == expected[part]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for again in threads.map(lambda _: ask(client, SCHEMA, **options), range(4)):
            assert again.json()["fields"] == expected["fields"]


def test_messages_json_schema_and_constraints(client, engine):
    messages = [{"role": "user", "content": TEXT}]
    form = {"type": "object", "properties": {"team": {"enum": ["billing", "sales"]}, "urgent": {"type": "boolean"}}}
    rule = [
        {"type": "implies", "if": {"field": "team", "value": "billing"}, "then": {"field": "urgent", "value": False}}
    ]
    answer = client.post("/v1/decide", json={"schema": form, "messages": messages, "constraints": rule})
    expected = json.loads(engine.decide(form, messages=messages, constraints=rule).to_json())
    assert answer.json()["fields"] == expected["fields"]


def events_of(text):
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.mark.parametrize("options", [{}, {"isolate": True}])
def test_fields_are_sent_as_soon_as_they_are_settled(client, engine, options):
    schema = SCHEMA if not options else {name: spec for name, spec in SCHEMA.items() if name != "case"}
    at, events = [], []
    with client.stream(
        "POST", "/v1/decide", json={"schema": schema, "context": TEXT, "stream": True, **options}
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for part in answer.iter_text():
            events += events_of(part)
            at.append(time.monotonic())
    assert [name for name, _ in events] == ["field"] * len(schema) + ["decision"]
    expected = json.loads(engine.decide(schema, TEXT, **options).to_json())
    for (_, field), name in zip(
        events, [*(n for n in schema if n != "case"), *(["case"] * ("case" in schema))], strict=False
    ):
        assert field == expected["fields"][name]
    assert events[-1][1]["fields"] == expected["fields"]
    # The first came before the rest was computed.
    assert at[-1] > at[0]


def test_a_stream_that_cannot_begin_is_an_ordinary_error(client):
    assert error(ask(client, {"a": {"choices": []}}, stream=True)) == (422, "schema.choices.count")


def test_an_error_after_the_first_field_is_an_event(client):
    rule = [{"type": "excludes", "fields": []}]
    answer = ask(client, constraints=rule, stream=True)
    assert answer.status_code == 422


BODY = {"schema": FLAG, "context": TEXT}


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"", 422, "server.request", ""),
        (b"{", 422, "server.request", None),
        (b"\xff", 422, "server.request", None),
        (b'{"schema": {}, "schema": {}}', 422, "server.request", None),
        (b'{"schema": {"a": {"type": "boolean"}}, "context": "\\ud800"}', 422, "server.request", None),
        (b'{"schema": NaN}', 422, "server.request", None),
        (b"[" * 100_000, 422, "server.request", None),
        (b'{"schema": ' + b"1" * 5000 + b"}", 422, "server.request", None),
        (b"[]", 422, "server.request", ""),
        ({**BODY, "contxt": "x"}, 422, "server.request", "contxt"),
        ({"schema": FLAG}, 422, "config.context", None),
        ({**BODY, "messages": []}, 422, "config.context", None),
        ({**BODY, "context": 7}, 422, "server.request", "context"),
        ({**BODY, "scoring": "guess"}, 422, "server.request", "scoring"),
        ({**BODY, "temperature": 0}, 422, "server.request", "temperature"),
        ({**BODY, "permutations": 1000}, 422, "server.request", "permutations"),
        ({**BODY, "schema": {}}, 422, "schema.empty", None),
        ({**BODY, "schema": {"a": {"choices": ["x", "x"]}}}, 422, "schema.choices.duplicate", "a.choices[1]"),
        (
            {**BODY, "schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
            422,
            "schema.input.text",
            "a",
        ),
        ({**BODY, "constraints": [{"type": "no"}]}, 422, "constraints.type", "constraints[0].type"),
        ({**BODY, "policy": {"nobody": {"min_probability": 0.5}}}, 422, "config.policy", None),
        ({**BODY, "model": "gpt"}, 404, "server.model", "model"),
        ({**BODY, "model": "jev-latest"}, 200, None, None),
        ({**BODY, "calibration": "none"}, 422, "server.calibration", "calibration"),
        ({**BODY, "model": "small", "context": "word " * 5000}, 413, "prompt.too_long", None),
    ],
)
def test_bad_requests(client, body, status, code, param):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/v1/decide", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    if code is None:
        return
    found = answer.json()
    assert found["error"]["code"] == code
    if param is not None:
        assert (found["error"]["param"] or "") == param
    assert found["error"]["message"]
    assert isinstance(found["detail"], list if status == 422 else dict)


def test_other_paths_and_methods(client):
    assert error(client.get("/nowhere")) == (404, "server.route")
    assert error(client.get("/v1/decide")) == (405, "server.method")


def test_a_request_has_an_id_everywhere(client, server):
    answer = client.get("/health", headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == answer.headers["x-typesafe-request-id"] == "mine-1"
    made = client.get("/nowhere", headers={"x-request-id": "not an id\x7f"}).headers["x-request-id"]
    assert len(made) == 16
    server.wait_until(lambda: {"mine-1", made} <= {event.get("request_id") for event in server.events("request")})


def test_metrics_and_descriptions(client):
    ask(client)
    text = client.get("/metrics").text
    assert 'jevmlx_requests_total{route="/v1/decide",status="200"}' in text
    assert 'jevmlx_fields_total{status="decided"}' in text
    assert "nowhere" not in text
    described = client.get("/openapi.json").json()
    assert {"/v1/decide", "/v1/systemone", "/v1/decisions", "/v1/models"} <= described["paths"].keys()
    page = client.get("/docs").text
    # It needs nothing from elsewhere.
    assert "https://" not in page
    used = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(used) >= 3
    assert all(client.get(path).status_code == 200 for path in used)
    listed = client.get("/v1/models").json()
    assert (
        [model["id"] for model in listed["data"]]
        == [model["name"] for model in listed["models"]]
        == ["embedded", "small"]
    )


def test_a_host_by_another_name_is_refused(client):
    assert error(client.get("/v1/models", headers={"host": "evil.example"})) == (403, "server.host")
    assert client.get("/v1/models", headers={"host": "localhost:1"}).status_code == 200


def test_limits(small):
    server = Server("-m", f"small={small}", "--max-body", "20", "--max-rows", "8", "--max-tokens", "3000")
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            assert error(ask(client, context="x" * 21_000)) == (413, "server.body")

            def chunks():
                for _ in range(40):
                    yield b" " * 1024

            assert error(client.post("/v1/decide", content=chunks())) == (413, "server.body")
            many = {f"f{at}": {"type": "boolean"} for at in range(9)}
            assert error(ask(client, many)) == (413, "server.rows")
            assert error(ask(client, context="word " * 3500)) == (413, "server.tokens")
            assert ask(client).status_code == 200
    finally:
        assert server.stop() == 0


@pytest.fixture(scope="module")
def narrow(small):
    server = Server("-m", f"small={small}", "--queue", "2", "--deadline", "2")
    yield server
    server.stop()


def free(server):
    return "jevmlx_requests_in_work 0.0" in httpx.get(f"{server.url}/metrics").text


def test_a_full_queue_says_when_to_come_again(narrow):
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        body = {"schema": SLOW, "context": TEXT, "isolate": True}
        post = lambda _: httpx.post(f"{narrow.url}/v1/decide", json=body, timeout=60)  # noqa: E731
        answers = list(threads.map(post, range(6)))
    busy = [answer for answer in answers if answer.status_code == 429]
    assert len(busy) == 4
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in busy)
    assert error(busy[0]) == (429, "server.busy")
    # The other two ran into the deadline, and gave their places back.
    assert [error(answer) for answer in answers if answer.status_code != 429] == [(504, "server.deadline")] * 2
    narrow.wait_until(lambda: free(narrow))
    assert httpx.post(f"{narrow.url}/v1/decide", json=BODY, timeout=60).status_code == 200


def test_work_of_a_client_that_hung_up_is_dropped(narrow):
    body = json.dumps({"schema": SLOW, "context": TEXT, "isolate": True}).encode()
    head = f"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    started = time.monotonic()
    with socket.create_connection(("127.0.0.1", int(narrow.url.rpartition(":")[2]))) as connection:
        connection.sendall(head.encode() + body)
        narrow.wait_until(lambda: not free(narrow))
    narrow.wait_until(lambda: free(narrow), 2)
    assert httpx.post(f"{narrow.url}/v1/decide", json=BODY, timeout=60).status_code == 200
    assert time.monotonic() - started < 3
    narrow.wait_until(lambda: any(event["status"] == 499 for event in narrow.events("request")))


def test_a_body_that_does_not_come_is_not_waited_for(narrow):
    head = (
        b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    )
    with socket.create_connection(("127.0.0.1", int(narrow.url.rpartition(":")[2])), timeout=30) as connection:
        connection.sendall(head)
        assert connection.recv(4096).startswith(b"HTTP/1.1 504")


def test_sigterm_finishes_what_is_in_work(small):
    server = Server("-m", f"small={small}", "--deadline", "60")
    body = {"schema": dict(list(SLOW.items())[:30]), "context": TEXT, "isolate": True}
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        answer = threads.submit(httpx.post, f"{server.url}/v1/decide", json=body, timeout=120)
        server.wait_until(lambda: not free(server))
        assert server.stop(signal.SIGTERM) == 0
        assert answer.result().status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health")


def test_tokens_come_and_go_without_a_restart(small, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("# who may ask\nann:first-token\nbob:second-token\n")
    server = Server("-m", f"small={small}", "--host", "0.0.0.0", "--tokens", str(file), wait=False)  # noqa: S104
    try:

        def status(token=None, path="/v1/models"):
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            return httpx.get(server.url + path, headers=headers).status_code

        server.wait_until(lambda: status(path="/ready") == 200)
        assert [status(), status("wrong-token"), status("first-token"), status("second-token")] == [401, 401, 200, 200]
        assert status(path="/metrics") == 401
        refused = httpx.get(f"{server.url}/v1/models", headers={"authorization": "Basic Zmlyc3Q6"})
        assert error(refused) == (401, "server.token")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["detail"]["error_type"] == "authentication_error"
        file.write_text("bob:second-token\ncid:third-token\n")
        assert [status("first-token"), status("second-token"), status("third-token")] == [401, 200, 200]
        file.write_text("nonsense\n")
        assert status("second-token") == 401
        file.write_text("bob:second-token\n")
        assert status("second-token") == 200
        file.unlink()
        assert status("second-token") == 401
        named = {event["token"] for event in server.events("request") if event["status"] == 200}
        assert {"ann", "bob", "cid"} <= named
        assert "second-token" not in json.dumps(server.log)
    finally:
        assert server.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--host", "0.0.0.0"], "config.tokens"),  # noqa: S104
        (["--tokens", "{folder}/none"], "config.tokens"),
        (["--tokens", "{folder}/bad"], "config.tokens"),
        (["--tokens", "{folder}/empty"], "config.tokens"),
        (["--port", "{taken}"], "config.server"),
        (["--deadline", "0"], "config.server"),
        (["--dialects-calibration", "x"], "config.server"),
        (["--calibration", "x={folder}/none"], "calibration.file"),
        (["-m", "{folder}/none"], "model.not_found"),
    ],
)
def test_what_a_server_does_not_start_with(tmp_path, arguments, code):
    (tmp_path / "bad").write_text("ann: short\n")
    (tmp_path / "empty").write_text("\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = [one.format(folder=tmp_path, taken=taken.getsockname()[1]) for one in arguments]
        command = [sys.executable, "-m", "jevmlx", "serve", *([] if "--port" in given else ["--port", "0"]), *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"[{code}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_models_share_a_bound_of_memory(small, tmp_path):
    # Two of 13 MB each do not fit into 20.
    other = small_model(tmp_path / "other")
    server = Server("-m", f"one={small}", "-m", f"two={other}", "--models-memory", "20")
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            first = ask(client, model="one").json()["fields"]
            assert ask(client, model="two").status_code == 200
            assert client.get("/ready").json()["models"] == ["two"]
            assert ask(client, model="one").json()["fields"] == first
            slow = {"schema": dict(list(SLOW.items())[:40]), "context": TEXT, "isolate": True, "model": "one"}
            with concurrent.futures.ThreadPoolExecutor(1) as threads:
                busy = threads.submit(client.post, "/v1/decide", json=slow)
                server.wait_until(lambda: not free(server))
                assert error(ask(client, model="two")) == (503, "model.memory")
                assert busy.result().status_code == 200
            assert ask(client, model="two").status_code == 200
    finally:
        assert server.stop() == 0


def test_what_was_answered_is_in_the_audit_log_whatever_happens(small, tmp_path):
    log = tmp_path / "audit.jsonl"
    server = Server("-m", f"small={small}", "--audit-log", str(log), "--queue", "64")
    acknowledged = []
    stopped = threading.Event()

    def work(number):
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for at in range(10_000):
                if stopped.is_set():
                    return
                try:
                    answer = ask(client, context=f"text {number}-{at}")
                except httpx.TransportError:
                    return
                assert answer.status_code == 200
                acknowledged.append((f"text {number}-{at}", answer.json()["values"]))

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        working = [threads.submit(work, number) for number in range(8)]
        server.wait_until(lambda: len(acknowledged) > 40)
        server.process.kill()
        stopped.set()
        for one in working:
            one.result()
    server.process.wait()
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines() if line.endswith("}")]
    recorded = {line["context"]: line["result"]["values"] for line in lines if "context" in line}
    assert len(acknowledged) > 40
    assert [pair for pair in acknowledged if recorded.get(pair[0]) != pair[1]] == []
    assert verify(log).ok


def test_a_calibration_is_applied_as_by_python(engine, tmp_path):
    from jevmlx.calibration import Calibration, Made

    files = {}
    for name, options in (("plain", {}), ("alone", {"isolate": True})):
        found = engine.decide(FLAG, TEXT, **options).provenance
        calibration = Calibration(
            format="jevmlx-calibration-1",
            package_version="0",
            made_for=Made(**{key: getattr(found, key) for key in Made.model_fields}),
            temperatures={"boolean": 7.0},
            multi=None,
            data_sha256="0" * 64,
            reports={},
        )
        files[name] = tmp_path / f"{name}.json"
        calibration.save(files[name])
    given = [part for name, file in files.items() for part in ("--calibration", f"{name}={file}")]
    server = Server(*given, "--dialects-calibration", "alone")
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            expected = engine.decide(FLAG, TEXT, calibration=files["plain"])
            assert ask(client, calibration="plain").json()["fields"] == json.loads(expected.to_json())["fields"]
            assert error(ask(client, calibration="alone")) == (422, "calibration.mismatch")
            alone = jevmlx.Schema({"q0": {"type": "boolean"}})
            expected = engine.decide(alone, TEXT, calibration=files["alone"], isolate=True)
            body = {"model": "jev-latest", "state": TEXT, "questions": {"x": {"type": "noul"}}}
            answer = client.post("/v1/systemone", json=body).json()
            assert answer["answers"]["x"]["noul"] == expected["q0"].probabilities[True]
    finally:
        assert server.stop() == 0
