"""How long does a schema take to compile, and how much of that is ours?"""

import jevmlx
from conftest import seconds
from jevmlx.tokenizers import adapt
from reference.loading import load_tokenizer

FIVE = {
    "team": {"choices": ["billing", "technical", "sales", "legal"], "description": "Who should answer"},
    "priority": {"choices": ["low", "normal", "high"], "ordered": True, "description": "How soon"},
    "language": {"choices": ["en", "de", "fr", "es", "it", "pt"], "description": "Language of the text"},
    "urgent": {"type": "boolean", "description": "Needs a reply today"},
    "angry": {"type": "boolean", "description": "The writer is upset"},
}
MANY = {"intent": {"choices": [f"intent_{index:03}" for index in range(255)], "description": "What is wanted"}}


class Replay:
    """A tokenizer whose answers are already known: what is left is the compiler's own time."""

    def __init__(self, tokenizer):
        self.tokenizer = adapt(tokenizer)
        self.known = {}

    def encode_data(self, texts):
        missing = [text for text in texts if text not in self.known]
        self.known.update(zip(missing, self.tokenizer.encode_data(missing), strict=True))
        return [self.known[text] for text in texts]


def test_five_fields_slots(benchmark, figure):
    tokenizer = adapt(load_tokenizer("qwen2.5"))
    schema = jevmlx.Schema(FIVE)
    whole = seconds(lambda: jevmlx.compile_plan(schema, tokenizer, "slots"), 50)
    texts = []

    def record(batch):
        texts.append(list(batch))
        return tokenizer.encode_data(batch)

    jevmlx._core.compile_plan(schema, record, "slots")
    tokenizing = seconds(lambda: [tokenizer.encode_data(batch) for batch in texts], 50)
    replay = Replay(tokenizer)
    jevmlx._core.compile_plan(schema, replay.encode_data, "slots")
    benchmark(jevmlx._core.compile_plan, schema, replay.encode_data, "slots")
    own = benchmark.stats.stats.median
    figure(
        "compile, 5 fields, slots, Qwen, less tokenization",
        own * 1e3,
        "ms",
        "≤ 1 ms",
        f"tokenizing {tokenizing * 1e3:.2f} ms",
    )
    figure(
        "compile, 5 fields, slots, Qwen ÷ its tokenization",
        whole / tokenizing,
        "×",
        "report",
        "tokenizing the same texts",
    )


def test_255_choices_slots(benchmark, figure):
    tokenizer = adapt(load_tokenizer("qwen2.5"))
    plan = benchmark(jevmlx.compile_plan, MANY, tokenizer, "slots")
    branches = len(plan.layout().branch_nodes) // 4  # int32
    figure("compile, 255 options, slots, Qwen, all in", benchmark.stats.stats.median * 1e3, "ms", "≤ 60 ms")
    figure("the same: branch nodes", branches, "", "1")
