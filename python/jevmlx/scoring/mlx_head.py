"""The output head: hidden states to logits, for the allowed tokens alone or for the whole vocabulary.

What a model does to its logits besides the projection (soft-capping, scaling) is done by the model's own class: it is run with
hidden states in place of its body and, for the allowed tokens, with finished products in place of its projection.
"""

from __future__ import annotations

from typing import Any, Protocol

from .mlx_load import mx, nn, unpacked

_BODIES = ("model", "transformer", "backbone")
_PROJECTIONS = (nn.Linear, nn.QuantizedLinear, nn.Embedding, nn.QuantizedEmbedding)


class Head(Protocol):
    """From what a body gives to logits.

    Attributes:
        body: Called with token ids of shape (1, tokens) and ``cache``; gives hidden states, shape (1, tokens, dims).
    """

    body: Any

    def all_logits(self, hidden: mx.array) -> mx.array:
        """Logits of the whole vocabulary, shape (positions, vocabulary), for hidden states of shape (positions, dims)."""

    def logits(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        """Logits of one token per hidden state, shape (n,), for hidden states of shape (n, dims) and n token ids."""


class OutputHead:
    """The head of a model whose class runs a body and then projects, with the rows of one matrix.

    Args:
        model: An mlx-lm model.

    Raises:
        LookupError: It is not of that form, as far as can be seen without running it.
    """

    def __init__(self, model: Any) -> None:
        while "language_model" in model:
            model = model["language_model"]
        self._model = model
        self._name = next((name for name in _BODIES if name in model), None)
        if self._name is None:
            raise LookupError("its body goes by another name")
        self.body = model[self._name]
        probe = _GivenProducts(mx.zeros((1, 1, 1)))
        self._run(mx.zeros((1, 1, 1)), probe)
        if probe.stands_for is None:
            raise LookupError("its logits are no product with one matrix")
        self._matrix = probe.stands_for

    def all_logits(self, hidden: mx.array) -> mx.array:
        """See :class:`Head`."""
        return self._run(hidden[None], None)[0]

    def logits(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        """See :class:`Head`; from those tokens' rows of the output matrix alone, in float32."""
        rows = _rows(self._matrix, tokens)
        products = (hidden.astype(mx.float32) * rows.astype(mx.float32)).sum(axis=-1)
        bias = self._matrix.get("bias")
        if bias is not None:
            products = products + bias[tokens]
        return self._run(hidden[None], _GivenProducts(products[None, None]))[0, 0]

    def _run(self, hidden: mx.array, given: _GivenProducts | None) -> mx.array:
        """The model's own call, its body replaced by hidden states and its projection by finished products."""
        model = self._model
        clone = _twin(model)
        dict.__setitem__(clone, self._name, _GivenBody(self.body, hidden, given))
        if given is not None:
            for name, child in model.items():
                if isinstance(child, _PROJECTIONS):
                    dict.__setitem__(clone, name, given.instead_of(child))
        logits: mx.array = clone(mx.zeros((1, 1), mx.int32))
        return logits


class WholeHead:
    """The head of any other model: its call as it is, logits at all positions in place of hidden states."""

    def __init__(self, model: Any) -> None:
        self.body = model

    def all_logits(self, hidden: mx.array) -> mx.array:
        """See :class:`Head`."""
        return hidden

    def logits(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        """See :class:`Head`."""
        return mx.take_along_axis(hidden, tokens[:, None], axis=-1)[:, 0]


class _GivenBody:
    """Stands for a model's body: gives hidden states, and the body's attributes otherwise."""

    def __init__(self, body: Any, hidden: mx.array, given: _GivenProducts | None) -> None:
        self._body = body
        self._hidden = hidden
        self._given = given

    def __call__(self, *_args: Any, **_kwargs: Any) -> mx.array:
        return self._hidden

    def __getattr__(self, name: str) -> Any:
        child = getattr(self._body, name)
        if self._given is not None and isinstance(child, _PROJECTIONS):
            return self._given.instead_of(child)
        return child


class _GivenProducts:
    """Finished products, and the projection that was found to be asked for them."""

    def __init__(self, products: mx.array) -> None:
        self.products = products
        self.stands_for: Any = None

    def instead_of(self, projection: Any) -> _GivenProjection:
        return _GivenProjection(self, projection)


class _GivenProjection:
    """Stands for one projection: gives the products, whatever it is called with."""

    def __init__(self, given: _GivenProducts, projection: Any) -> None:
        self._given = given
        self._projection = projection

    def __call__(self, _hidden: mx.array) -> mx.array:
        self._given.stands_for = self._projection
        return self._given.products

    as_linear = __call__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._projection, name)


def _twin(module: Any) -> Any:
    """Another module of the same class with the same parts."""
    twin: Any = dict.__new__(type(module))
    dict.update(twin, module)
    twin.__dict__.update(module.__dict__)
    return twin


def _rows(matrix: Any, tokens: mx.array) -> mx.array:
    """Rows of an output matrix, unpacked where it is quantized; shape (tokens, dims)."""
    if "scales" not in matrix:
        rows: mx.array = matrix.weight[tokens]
        return rows
    part = _twin(matrix)
    for name in ("weight", "scales", "biases"):
        if matrix.get(name) is not None:
            dict.__setitem__(part, name, matrix[name][tokens])
    return unpacked(part)
