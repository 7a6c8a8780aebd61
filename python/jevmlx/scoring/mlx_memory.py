"""Memory: what a pass takes, and how MLX says that there is none left."""

from __future__ import annotations

from dataclasses import dataclass

from ..limits import available_memory

# Less than this is not worth asking the system about.
_UNCHECKED_BYTES = 2**28


# MLX takes a buffer it has kept for a new array that is smaller by up to some pages, and counts all of it: a pass in a process that
# has computed much takes a few kilobytes more than in a fresh one.
_REUSED_BYTES = 1 << 18


@dataclass(frozen=True)
class Needs:
    """Sizes from which the memory of a pass follows.

    Attributes:
        heads: Query heads of a layer.
        dims: Numbers per token between layers.
        widest: Numbers per token in the widest place inside a layer.
        vocabulary: Logits per position.
        layer_bytes: Keys and values of one token in one layer.
        item_bytes: Bytes of one number.
    """

    heads: int
    dims: int
    widest: int
    vocabulary: int
    layer_bytes: int
    item_bytes: int

    def of_pass(self, tokens: int, keys: int) -> int:
        """An upper bound of what a pass takes beside the state, in bytes.

        Args:
            tokens: Tokens in the pass.
            keys: Tokens they may attend to, themselves included.
        """
        # Scores, the same masked, and their softmax, where attention is not one fused kernel; the mask.
        attention = tokens * keys * (3 * self.heads * self.item_bytes + 2)
        # Joined for one layer at a time, and once more where a query head has its own copy.
        joined = 2 * keys * self.layer_bytes
        activations = tokens * (4 * self.widest + 8 * self.dims) * self.item_bytes
        return attention + joined + activations + _REUSED_BYTES

    def of_projection(self, positions: int) -> int:
        """The same for the whole vocabulary's logits at some positions."""
        return 3 * positions * self.vocabulary * 4


def check_available(needed: int) -> None:
    """Raises before a pass that would not fit: MLX's CPU allocator ends the process where a GPU's raises.

    Raises:
        MemoryError: The system has less than ``needed`` bytes left.
    """
    if needed > _UNCHECKED_BYTES:
        free = available_memory()
        if free is not None and needed > free:
            raise MemoryError(f"a pass needs up to {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether MLX raised this because it could not allocate."""
    # MLX has no class for it; each of its allocators says one of these.
    text = str(error).lower()
    return isinstance(error, MemoryError) or "allocate" in text or "out of memory" in text
