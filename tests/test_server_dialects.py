"""The public dialects, asked by the vendors' own clients, and their public conformance suite."""

import asyncio
import json
from pathlib import Path

import httpx2 as httpx
import openai
import pytest
import typesafe_sdk as typesafe
from jevcompat.runner import run

from served import Server, small_model
from test_models import write_model

TICKET = "I was charged twice for March and nobody answers. Please fix this today."
TOKEN = "a-token-of-the-test"  # noqa: S105 - no secret


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dialects")
    (folder / "tokens").write_text(f"test:{TOKEN}\n")
    small = small_model(folder / "small")
    server = Server("-m", "embedded", "-m", f"small={small}", "--tokens", str(folder / "tokens"), "--deadline", "600")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    small = small_model(tmp_path_factory.mktemp("narrow") / "small")
    server = Server("-m", f"small={small}", "--queue", "1", "--deadline", "1", "--max-body", "64")
    yield server
    server.stop()


def test_the_public_conformance_suite(server):
    report = run(server.url, key=TOKEN, timeout=600)
    assert report.aborted is None
    assert [(one.id, [found.message for found in one.findings]) for one in report.results if one.status == "fail"] == []
    assert report.verdict == "conformant"
    # One of the two about tokens applies.
    assert [one.id for one in report.results if one.status == "skip"] == ["auth.ignored-when-off"]
    assert report.count("MUST", "pass") == 32
    assert report.count("SHOULD", "pass") == 15


QUESTIONS = {
    "refund": typesafe.Noul(instructions="Is the customer asking for money back?", criteria={"true": "refunds"}),
    "team: who?": typesafe.Choice(instructions="Which team?", criteria={"billing": "payments", "技術": None}),
    "anger": typesafe.Score(instructions="How angry?", criteria=["calm", {"label": "cross"}, "calm"]),
}
# What is asked of the library for the same.
FIELDS = {
    "a": {
        "type": "boolean",
        "description": "Is the customer asking for money back?",
        "choice_descriptions": {"true": "refunds"},
    },
    "b": {"choices": ["billing", "技術"], "description": "Which team?", "choice_descriptions": {"billing": "payments"}},
    "c": {
        "choices": ["0", "1", "2"],
        "ordered": True,
        "description": "How angry?",
        "choice_descriptions": {"0": "calm", "1": '{"label": "cross"}', "2": "calm"},
    },
}


def check_system_one(answer, expected):
    a, b, c = expected.fields.values()
    assert answer.model == "embedded"
    assert answer.nouls["refund"].noul == a.probabilities[True]
    choice = answer.choices["team: who?"]
    assert (choice.choice, dict(choice.probabilities)) == (b.value, dict(b.probabilities))
    assert choice.confidence == b.confidence
    score = answer.scores["anger"]
    assert score.score == c.level.expected_index
    assert list(score.probabilities.values()) == list(c.probabilities.values())
    assert score.legend == {0: "calm", 1: {"label": "cross"}, 2: "calm"}
    assert answer.usage.input_tokens > 0


def test_system_one_client(server, engine):
    expected = engine.decide(FIELDS, TICKET, isolate=True)
    with typesafe.TypeSafeClient(api_key=TOKEN, base_url=server.url, timeout=120) as client:
        check_system_one(client.system_one(state=TICKET, questions=QUESTIONS), expected)
        assert [model.name for model in client.models.list().models] == ["embedded", "small"]

    async def ask():
        async with typesafe.AsyncTypeSafeClient(api_key=TOKEN, base_url=server.url, timeout=120) as client:
            return await client.system_one(state=TICKET, questions=QUESTIONS)

    check_system_one(asyncio.run(ask()), expected)


@pytest.mark.parametrize(
    ("kind", "token", "model", "questions"),
    [
        (typesafe.TypeSafeAuthenticationError, "another-token", "small", QUESTIONS),
        (typesafe.TypeSafeNotFoundError, TOKEN, "nobody", QUESTIONS),
        (
            typesafe.TypeSafeUnprocessableEntityError,
            TOKEN,
            "small",
            {"x": {"type": "choice", "criteria": {"one": None}}},
        ),
    ],
)
def test_system_one_errors(server, kind, token, model, questions):
    with (
        typesafe.TypeSafeClient(api_key=token, base_url=server.url, timeout=60) as client,
        pytest.raises(kind) as caught,
    ):
        client.system_one(state=TICKET, questions=questions, model=model)
    assert caught.value.request_id
    assert str(caught.value)


PREDICATE = {"type": "predicate", "name": "refund", "instructions": "The customer asks for money back."}
CHOICE = {
    "type": "choice",
    "name": "kind",
    "instructions": [{"type": "input_text", "text": "Which?"}, {"type": "input_json", "data": {"of": "these"}}],
    "choices": [{"value": True, "description": "yes"}, {"value": "true"}, {"value": "no"}],
}
SCORE = {
    "type": "score",
    "instructions": "How angry?",
    "levels": [{"label": "calm", "description": "no anger"}, {"label": "cross"}, {"label": "furious"}],
}
ITEMS = [
    {"role": "developer", "content": "Tickets of a shop."},
    {"role": "user", "content": [{"type": "input_text", "text": TICKET}, {"type": "input_json", "data": {"id": 4}}]},
    {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Sorry!"}, {"type": "refusal", "refusal": "No."}],
    },
    {"type": "function_call", "call_id": "1", "name": "orders", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "none"},
    {"type": "custom_tool_call", "call_id": "2", "name": "shell", "input": "ls"},
    {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "-"}]},
]
ASKED = {
    "a": {"type": "boolean", "description": "The customer asks for money back."},
    "b": {
        "choices": ["true", '"true"', '"no"'],
        "description": 'Which?\n{"of": "these"}',
        "choice_descriptions": {"true": "yes"},
    },
    "c": {
        "choices": ["calm", "cross", "furious"],
        "ordered": True,
        "description": "How angry?",
        "choice_descriptions": {"calm": "no anger"},
    },
}


def check_decisions(answer, expected):
    a, b, c = expected.fields.values()
    predicate, choice, score = answer.answers
    assert (predicate.type, predicate.name, predicate.probability) == ("predicate", "refund", a.probabilities[True])
    values = [True, "true", "no"]
    assert [found.value for found in choice.probabilities] == values
    assert [type(found.value) for found in choice.probabilities] == [bool, str, str]
    assert [found.probability for found in choice.probabilities] == list(b.probabilities.values())
    best = values[list(b.probabilities).index(b.value)]
    assert (choice.type, choice.name, choice.confidence) == ("choice", "kind", b.confidence)
    assert choice.choice == best
    assert type(choice.choice) is type(best)
    assert (score.type, score.name, score.score) == ("score", None, c.level.expected_index)
    assert [(found.label, found.value) for found in score.probabilities] == [("calm", 0), ("cross", 1), ("furious", 2)]
    assert answer.usage.total_tokens == answer.usage.input_tokens > 0


def test_openai_client(server, engine):
    asked = {"model": "embedded", "questions": [PREDICATE, CHOICE, SCORE]}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
        check_decisions(client.decisions.create(input=TICKET, **asked), engine.decide(ASKED, TICKET, isolate=True))
        lines = [
            {"role": "developer", "content": "Tickets of a shop."},
            {"role": "user", "content": TICKET + '\n{"id": 4}'},
            {"role": "assistant", "content": "Sorry!\nNo."},
            {"type": "function_call", "call_id": "1", "name": "orders", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "none"},
            {"type": "custom_tool_call", "call_id": "2", "name": "shell", "input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "2", "output": "-"},
        ]
        expected = engine.decide(ASKED, "\n".join(map(json.dumps, lines)), isolate=True)
        check_decisions(client.decisions.create(input=ITEMS, **asked), expected)
        assert [model.id for model in client.models.list()] == ["embedded", "small"]

    async def ask():
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN) as client:
            return await client.decisions.create(input=TICKET, **asked)

    check_decisions(asyncio.run(ask()), engine.decide(ASKED, TICKET, isolate=True))


def test_400_questions(server):
    questions = [{**PREDICATE, "name": f"q{at}", "instructions": f"Fact {at} holds."} for at in range(400)]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, timeout=300) as client:
        answer = client.decisions.create(model="small", input="Hi.", questions=questions)
        assert [found.name for found in answer.answers] == [question["name"] for question in questions]
        assert all(0 <= found.probability <= 1 for found in answer.answers)


def test_what_a_model_cannot_tell_apart_is_refused_alone(tmp_path):
    """A vocabulary of words knows t1 and t2, and no other."""
    words = write_model(tmp_path / "words", max_position_embeddings=4096)
    server = Server("-m", f"words={words}")
    questions = [
        {"type": "choice", "name": name, "instructions": "Which?", "choices": [{"value": value} for value in values]}
        for name, values in (("known", ["t1", "t2"]), ("unknown", ["one", "two"]), ("again", ["t3", "t4"]))
    ]
    try:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            answer = client.decisions.create(model="words", input="t5 t6", questions=questions)
            assert [(found.type, found.name) for found in answer.answers] == [
                ("choice", "known"),
                ("refusal", "unknown"),
                ("choice", "again"),
            ]
            refused = client.decisions.create(model="words", input="t5", questions=[questions[1]])
            assert [found.type for found in refused.answers] == ["refusal"]
            assert refused.usage.total_tokens == 0
    finally:
        assert server.stop() == 0


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


@pytest.mark.parametrize(
    ("kind", "token", "change"),
    [
        (openai.AuthenticationError, "another-token", {}),
        (openai.NotFoundError, TOKEN, {"model": "gpt-6-luna"}),
        (openai.BadRequestError, TOKEN, {"questions": []}),
        (openai.BadRequestError, TOKEN, {"questions": [PREDICATE] * 401}),
        (openai.BadRequestError, TOKEN, {"questions": [{**SCORE, "levels": []}]}),
        (openai.BadRequestError, TOKEN, {"questions": [{**CHOICE, "choices": [{"value": 1}, {"value": 2}]}]}),
        (openai.BadRequestError, TOKEN, {"input": [{"role": "user", "content": [IMAGE]}]}),
        (openai.BadRequestError, TOKEN, {"questions": [{**PREDICATE, "instructions": [IMAGE]}]}),
        (openai.BadRequestError, TOKEN, {"input": [{"type": "function_call_output", "call_id": "9", "output": "x"}]}),
        (openai.UnprocessableEntityError, TOKEN, {"questions": [{**CHOICE, "choices": [{"value": "a"}] * 2}]}),
    ],
)
def test_openai_errors(server, kind, token, change):
    asked = {"model": "small", "input": TICKET, "questions": [PREDICATE], **change}
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=token) as client, pytest.raises(kind) as caught:
        client.decisions.create(**asked)
    assert caught.value.message
    assert caught.value.code
    assert caught.value.request_id
    if "input_image" in str(change):
        assert "images" in caught.value.message


def test_clients_tell_a_busy_server_from_a_late_one(narrow):
    slow = [{**PREDICATE, "instructions": f"Fact {at} holds."} for at in range(400)]
    with openai.OpenAI(base_url=f"{narrow.url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.InternalServerError) as late:
            client.decisions.create(model="small", input="Hi.", questions=slow)
        assert late.value.status_code == 504

        async def both():
            async with openai.AsyncOpenAI(base_url=f"{narrow.url}/v1", api_key="none", max_retries=0) as again:
                asked = [again.decisions.create(model="small", input="Hi.", questions=slow) for _ in range(2)]
                return await asyncio.gather(*asked, return_exceptions=True)

        assert sorted(type(found).__name__ for found in asyncio.run(both())) == [
            "InternalServerError",
            "RateLimitError",
        ]
        with pytest.raises(openai.APIStatusError) as large:
            client.decisions.create(model="small", input="x" * 70_000, questions=[PREDICATE])
        assert large.value.status_code == 413
    # Tokens that nobody asked for are ignored.
    with typesafe.TypeSafeClient(
        api_key="none", base_url=narrow.url, retry=typesafe.RetryPolicy(max_retries=0)
    ) as client:
        questions = {f"q{at}": typesafe.Noul(instructions=f"Fact {at}.") for at in range(400)}
        with pytest.raises(typesafe.TypeSafeInternalServerError):
            client.system_one(state="Hi.", questions=questions)
        with pytest.raises(typesafe.TypeSafeAPITimeoutError):
            client.system_one(state="Hi.", questions=questions, timeout=0.05)
        narrow.wait_until(lambda: "jevmlx_requests_in_work 0.0" in httpx.get(f"{narrow.url}/metrics").text)
        with pytest.raises(typesafe.TypeSafePermissionDeniedError):
            client.system_one(state="Hi.", questions=QUESTIONS, extra_headers={"host": "evil.example"})
        image = {"x": {"type": "image", "part": "p"}}
        with pytest.raises(typesafe.TypeSafeUnprocessableEntityError, match="assets"):
            client.system_one(
                state="Hi.", questions={"q": typesafe.Noul(instructions="x")}, extra_body={"assets": image}
            )
        picture = typesafe.Image(b"\x89PNG\r\n\x1a\n" + bytes(32))
        with pytest.raises(typesafe.TypeSafeBadRequestError, match="application/json"):
            client.system_one(state=[picture, "What is it?"], questions={"q": typesafe.Noul(instructions="x")})


def test_clients_tell_a_server_that_is_gone(narrow):
    narrow.stop()
    never = typesafe.RetryPolicy(max_retries=0)
    with (
        typesafe.TypeSafeClient(api_key="none", base_url=narrow.url, retry=never) as client,
        pytest.raises(typesafe.TypeSafeAPIConnectionError),
    ):
        client.models.list()
    with (
        openai.OpenAI(base_url=f"{narrow.url}/v1", api_key="none", max_retries=0) as other,
        pytest.raises(openai.APIConnectionError),
    ):
        other.models.list()


def test_no_question_moves_another(server):
    """Bit for bit, in both dialects: renamed, among others, in another order."""

    def ask(questions):
        body = {"model": "small", "state": TICKET, "questions": questions}
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx.post(f"{server.url}/v1/systemone", json=body, headers=headers, timeout=60).json()["answers"]

    one = {"type": "choice", "instructions": "Which?", "criteria": {"A": None, "AB": None, "é": None, "e\u0301": None}}
    other = {"type": "noul", "instructions": "Is it so?"}
    alone = ask({"x": one})["x"]
    assert list(alone["probabilities"]) == ["A", "AB", "é", "e\u0301"]
    assert ask({"y": other, "z": one})["z"] == alone
    assert ask({"z": one, "y": other})["z"] == alone


def test_a_name_without_a_text_is_refused(server):
    body = {"model": "small", "state": TICKET, "questions": {"": {"type": "noul"}}}
    answer = httpx.post(f"{server.url}/v1/systemone", json=body, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 422


def test_the_example_of_the_documentation(server):
    text = (Path(__file__).parent.parent / "docs" / "server.md").read_text("utf-8")
    code = text.split("```py\n")[1].split("```")[0]
    exec(code.replace("http://127.0.0.1:8000", server.url).replace('"none"', repr(TOKEN)), {})  # noqa: S102 - our own
