"""The output head: hidden states to logits, for the allowed tokens alone or for the whole vocabulary.

What a model does to its logits besides the projection (soft-capping, scaling) is done by the model's own class: it is run with
hidden states in place of its body and, for the allowed tokens, with finished products in place of its projection.
"""

from __future__ import annotations

from typing import Any

from .mlx_load import mx, nn, unpacked


class _GivenBody:
    """Stands for a model's body: gives hidden states, and the body's attributes otherwise."""

    def __init__(self, body: Any, hidden: mx.array, embed_tokens: Any = None) -> None:
        self._body = body
        self._hidden = hidden
        if embed_tokens is not None:
            self.embed_tokens = embed_tokens

    def __call__(self, *_args: Any, **_kwargs: Any) -> mx.array:
        return self._hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


class _GivenProducts:
    """Stands for the projection: gives products that are finished, whatever it is called with."""

    def __init__(self, products: mx.array) -> None:
        self._products = products
        self.used = False

    def __call__(self, _hidden: mx.array) -> mx.array:
        self.used = True
        return self._products

    as_linear = __call__


class OutputHead:
    """Logits of hidden states, for one model.

    Args:
        model: The part of the model that has a ``model`` (its body) and returns logits.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._body = model.model
        self._weight = self._find_weight()

    def _find_weight(self) -> Any:
        """The module whose rows the logits come from: found by seeing which one the class calls."""
        lm_head = getattr(self._model, "lm_head", None)
        if lm_head is not None:
            given = _GivenProducts(mx.zeros((1, 1, 1)))
            self._run(mx.zeros((1, 1, 1)), given, None)
            if given.used:
                return lm_head
        return self._body.embed_tokens

    def all_logits(self, hidden: mx.array) -> mx.array:
        """Logits of the whole vocabulary, shape (positions, vocabulary), for hidden states of shape (positions, dims)."""
        return self._run(hidden[None], None, None)[0]

    def logits(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        """Logits of one token per hidden state, shape (n,), from those tokens' rows of the output matrix alone.

        Args:
            hidden: Shape (n, dims).
            tokens: Token ids, shape (n,).
        """
        weight = self._weight
        rows = _rows(weight, tokens)
        products = (hidden * rows.astype(hidden.dtype)).astype(mx.float32).sum(axis=-1)
        bias = weight.get("bias") if isinstance(weight, nn.Module) else None
        if bias is not None:
            products = products + bias[tokens]
        given = _GivenProducts(products.astype(hidden.dtype)[None, None])
        return self._run(hidden[None], given, given)[0, 0]

    def _run(self, hidden: mx.array, lm_head: Any, embed_tokens: Any) -> mx.array:
        model = self._model
        clone = type(model).__new__(type(model))
        dict.update(clone, model)
        clone.__dict__.update(model.__dict__)
        clone.model = _GivenBody(self._body, hidden, embed_tokens)
        if lm_head is not None and "lm_head" in model:
            clone.lm_head = lm_head
        return clone(mx.zeros((1, 1), mx.int32))


def _rows(weight: Any, tokens: mx.array) -> mx.array:
    """Rows of an output matrix, unpacked where it is quantized."""
    if not hasattr(weight, "scales"):
        return weight.weight[tokens]
    part = type(weight).__new__(type(weight))
    dict.update(part, weight)
    part.__dict__.update(weight.__dict__)
    for name in ("weight", "scales", "biases"):
        if weight.get(name) is not None:
            part[name] = weight[name][tokens]
    return unpacked(part)
