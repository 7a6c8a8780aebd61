"""Reads GGUF, the file format of llama.cpp, as far as the embedded model needs it.

The layout (version 3, little endian): magic, version, numbers of tensors and of metadata entries; the entries; per tensor its
name, shape (fastest dimension first), type and offset; then, aligned, the tensors' bytes.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32, Q4_1, Q8_0 = 0, 3, 8

# Both block types hold 32 weights; the bytes of a block.
BLOCK = 32
_BLOCK_BYTES = {Q4_1: 20, Q8_0: 34}

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class Tensor:
    """One tensor as stored.

    Attributes:
        kind: ``F32``, ``Q4_1`` or ``Q8_0``.
        shape: Rows first, as NumPy has it.
        data: Float32 values of that shape, or uint8 blocks of shape (rows, blocks per row, bytes per block).
    """

    kind: int
    shape: tuple[int, ...]
    data: NDArray[Any]


class GgufFile:
    """A GGUF file, mapped into memory.

    Attributes:
        metadata: Key → value.
        tensors: Name → tensor.

    Raises:
        ValueError: The file is not GGUF version 3, is cut short, or holds a tensor type other than the three.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        try:
            self.metadata, self.tensors = self._read()
        except (struct.error, KeyError, UnicodeDecodeError) as error:
            raise ValueError(f"{path.name} is not a whole GGUF file: {error!r}") from error

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        magic, version, tensors, entries = self._unpack("<4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"expected GGUF version 3, found {magic!r} version {version}")
        metadata = {self._string(): self._value(self._number("<I")) for _ in range(entries)}
        infos = []
        for _ in range(tensors):
            name = self._string()
            dimensions = self._number("<I")
            shape = tuple(reversed(self._unpack(f"<{dimensions}Q")))
            infos.append((name, shape, *self._unpack("<IQ")))
        alignment = metadata.get("general.alignment", 32)
        start = -(-self._at // alignment) * alignment
        found = {name: self._tensor(kind, shape, start + at) for name, shape, kind, at in infos}
        return metadata, found

    def _tensor(self, kind: int, shape: tuple[int, ...], offset: int) -> Tensor:
        if kind == F32:
            count = int(np.prod(shape))
            values = np.frombuffer(self._bytes, np.float32, count, offset)
            return Tensor(kind, shape, values.reshape(shape))
        size = _BLOCK_BYTES[kind]
        blocks = (*shape[:-1], shape[-1] // BLOCK, size)
        count = int(np.prod(blocks))
        return Tensor(kind, shape, np.frombuffer(self._bytes, np.uint8, count, offset).reshape(blocks))

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self._bytes, self._at)
        self._at += struct.calcsize(layout)
        return values

    def _number(self, layout: str) -> Any:
        return self._unpack(layout)[0]

    def _string(self) -> str:
        length = self._number("<Q")
        if self._at + length > len(self._bytes):
            raise ValueError("a string reaches beyond the end of the file")
        self._at += length
        return self._bytes[self._at - length : self._at].decode()

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            item, count = self._unpack("<IQ")
            return [self._value(item) for _ in range(count)]
        return self._number(_SCALARS[kind])


def affine_groups(
    tensor: Tensor,
) -> tuple[NDArray[np.uint32], NDArray[np.float16], NDArray[np.float16]]:
    """A quantized tensor in MLX's affine layout: ``weight = scale · q + bias`` over groups of 32.

    This is a change of layout only: in float32 both give the same values, bit for bit. Q4_1 is ``d · q + m`` with q in
    0…15; Q8_0 is ``d · q`` with q in −128…127, here ``d · (q + 128) − 128 d``.

    Returns:
        Packed q, uint32 of shape (rows, columns · bits ÷ 32), lowest bits first; scales and biases, float16 of shape
        (rows, columns ÷ 32).
    """
    halves = np.ascontiguousarray(tensor.data[..., :4]).view(np.float16)
    scales = np.ascontiguousarray(halves[..., 0])
    if tensor.kind == Q4_1:
        # A block's 16 bytes hold elements 0…15 in their low halves and 16…31 in the high ones; MLX wants neighbours.
        nibbles = tensor.data[..., 4:]
        ordered = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1)
        packed = ordered[..., 0::2] | ordered[..., 1::2] << 4
        biases = np.ascontiguousarray(halves[..., 1])
    else:
        packed = tensor.data[..., 2:] ^ np.uint8(0x80)
        biases = scales * np.float16(-128)
        if not np.array_equal(biases.astype(np.float32), scales.astype(np.float32) * -128):
            raise ValueError("a Q8_0 scale is too large for a float16 bias")
    words = np.ascontiguousarray(packed).reshape(*tensor.shape[:-1], -1).view(np.uint32)
    return words, scales, biases
