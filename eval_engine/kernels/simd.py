"""Compare many scores with a threshold at once, in vectors that LLVM splits into the machine's register width.

    bit j of passing(row, start, threshold)  =  row[start + j] >= threshold,   j = 0..63
    count_n of n labels                      :  #{s > t_i} and #{s >= t_i},    t_i = score of label i

LLVM vectorises the same loops written in Python too, but with half the width of AVX-512, and without the step from a
mask to positions. Both counts of 10 labels in a row of 10,000 scores, read from memory by one core, take 5.3 to 5.7 us
with these intrinsics and 9.5 to 12 us without. Counts are exact up to 10^9 items.

The counting loop prefetches the score that is AHEAD scores further on in the block, mostly in the next row, so that it
is in the cache when its row is counted. Near the end of the block that address is outside the block; a prefetch of such
an address does nothing.
"""

from itertools import chain
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 64
AHEAD = 1 << 14  # scores

BIT, BYTE, INT32, INT64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))


class Registers(NamedTuple):
    """How counting uses the vector registers: a label takes three, for its threshold and two counts.

    step is the number that a hit adds to a count. With 1, LLVM subtracts the mask as a vector, which AVX-512 must first
    make from a mask register. With 3, it adds under the mask register. The sum is divided by step at the end.
    """

    bits: int
    labels: int  # counted in one loop over the row
    step: int


WIDE, NARROW = Registers(512, 8, 3), Registers(256, 4, 1)  # 32 registers with AVX-512, 16 without


@intrinsic
def passing(_: Any, row: Any, start: Any, threshold: Any) -> Any:
    """uint64 whose bit j is 1 iff row[start + j] >= threshold; the caller ensures start + 64 <= row.size."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        scores = _load(builder, data, arguments[1], LANES)
        return builder.bitcast(
            builder.fcmp_ordered(">=", scores, _everywhere(builder, arguments[2], LANES)), ir.IntType(LANES)
        )

    return types.uint64(row, types.int64, types.float32), generate


@intrinsic
def lowest(_: Any, bits: Any) -> Any:
    """The position of the lowest set bit of a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(BIT, 1))

    return types.int64(types.uint64), generate


def _counter(n: int) -> Any:
    """An intrinsic that counts for n labels."""

    @intrinsic
    def count(_: Any, row: Any, positions: Any, first: Any, greater: Any, at_least: Any) -> Any:
        """Writes both counts of labels first..first + n - 1 over row[:end]; returns end.

        end is a multiple of the vector width. The caller counts row[end:], which does not fill a vector.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            arrays = [context.make_array(signature.args[a])(context, builder, arguments[a]) for a in (0, 1, 3, 4)]
            scores, labels, *counts = (array.data for array in arrays)
            features = context.codegen().magic_tuple()[2]  # of the CPU that numba compiles for; part of its cache key
            registers = WIDE if "+avx512f" in features else NARROW
            width = 32 if isinstance(scores.type.pointee, ir.FloatType) else 64
            end = builder.and_(
                builder.extract_value(arrays[0].shape, 0), ir.Constant(INT64, -(registers.bits // width))
            )
            places = [builder.add(arguments[2], ir.Constant(INT64, i)) for i in range(n)]
            for i in range(0, n, registers.labels):
                _sweep(builder, registers, (scores, end, width), labels, places[i : i + registers.labels], counts)
            return end

        return types.int64(row, positions, types.int64, greater, at_least), generate

    return count


def _sweep(
    builder: Any, registers: Registers, row: tuple[Any, Any, int], labels: Any, places: list[Any], counts: list[Any]
) -> None:
    """One loop over the row that counts for the labels at the indices `places`."""
    scores, end, width = row
    lanes = registers.bits // width
    own = [
        builder.load(builder.gep(scores, [builder.zext(builder.load(builder.gep(labels, [place])), INT64)]))
        for place in places
    ]
    thresholds = [_everywhere(builder, score, lanes) for score in own]
    vector = ir.VectorType(ir.IntType(width), lanes)
    zero, step = ir.Constant(vector, [0] * lanes), ir.Constant(vector, [registers.step] * lanes)
    sums = [[cgutils.alloca_once(builder, vector) for _ in places] for _ in counts]
    for total in chain(*sums):
        builder.store(zero, total)  # not at the allocation: the caller may run this code inside a loop
    with cgutils.for_range_slice(builder, ir.Constant(INT64, 0), end, ir.Constant(INT64, lanes)) as (start, _):
        _prefetch(builder, builder.gep(scores, [builder.add(start, ir.Constant(INT64, AHEAD))]))
        some = _load(builder, scores, start, lanes)
        for relation, of_labels in zip((">", ">="), sums, strict=True):
            for threshold, total in zip(thresholds, of_labels, strict=True):
                before = builder.load(total)
                hit = builder.fcmp_ordered(relation, some, threshold)
                builder.store(builder.select(hit, builder.add(before, step), before), total)
    for out, of_labels in zip(counts, sums, strict=True):
        for place, total in zip(places, of_labels, strict=True):
            builder.store(
                builder.udiv(_sum(builder, builder.load(total)), ir.Constant(INT32, registers.step)),
                builder.gep(out, [place]),
            )


count_1, count_2, count_4, count_8 = (_counter(n) for n in (1, 2, 4, 8))


def _everywhere(builder: Any, value: Any, lanes: int) -> Any:
    """A vector with the value in every lane."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(INT32, lanes), [0] * lanes))


def _load(builder: Any, data: Any, start: Any, lanes: int) -> Any:
    """A vector of the scores start..start + lanes - 1."""
    vector = ir.VectorType(data.type.pointee, lanes)
    scores = builder.load(builder.bitcast(builder.gep(data, [start]), vector.as_pointer()))
    scores.align = 4  # bytes: a row may start at any score of a file's buffer
    return scores


def _prefetch(builder: Any, address: Any) -> None:
    """Prefetches the address into the second-level cache, for reading: the first-level cache holds the current row."""
    kind = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), INT32, INT32, INT32])
    read, second_level, data = (ir.Constant(INT32, value) for value in (0, 2, 1))
    prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
    builder.call(prefetch, [builder.bitcast(address, BYTE.as_pointer()), read, second_level, data])


def _sum(builder: Any, vector: Any) -> Any:
    """The sum of the lanes as an int32."""
    lanes, element = vector.type.count, vector.type.element
    add = builder.module.declare_intrinsic(
        f"llvm.vector.reduce.add.v{lanes}i{element.width}", (), ir.FunctionType(element, [vector.type])
    )
    total = builder.call(add, [vector])
    return total if element.width == 32 else builder.trunc(total, INT32)
