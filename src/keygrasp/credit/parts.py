"""How the parts of a split sequence meet: over two launches, or within one that looks back.

Over two launches, the first writes (u, v) of each part, and each program of the second folds those before its own.

Within one, a program publishes (u, v) of its part as soon as it has them, and then waits for those before it. Programs
start in the order of their numbers, in which the part counts more than the row, and none waits before it has published:
so whatever a program waits for is on its way. (u, v) of a row is one word of 64 bits that is 0 until it is published;
it is written and read as a whole, so that no fence has to order it with anything else. Every ``WINDOW`` parts are a
group, whose last one publishes the (u, v) of the group. A state is folded from the groups before its own and from the
parts of its own before it: two waits at most, and the same grouping, so the same bits, whatever came first.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call, assignment"

from __future__ import annotations

import triton
import triton.language as tl

from keygrasp.credit.tiles import apply, compose_all, then

#: Parts that one thread folds in the second of two launches.
FOLD = tl.constexpr(8)
#: Words that one program clears.
CLEARED = tl.constexpr(1024)
#: Looks at a word again ($0, first $1, at $2) until it is published. After a million looks, each most of a microsecond,
#: it counts as missing, and gives NaN. A thread looks at its own words: two may see one arrive at different times.
_LOOK = tl.constexpr("""{
    .reg .pred over;
    .reg .u32 low, looks;
    mov.u64 $0, $1;
    mov.u32 looks, 0;
AGAIN:
    cvt.u32.u64 low, $0;
    setp.ne.u32 over, low, 0;
    @over bra DONE;
    add.u32 looks, looks, 1;
    setp.gt.u32 over, looks, 1000000;
    @over bra DONE;
    ld.relaxed.gpu.global.b64 $0, [$2];
    bra AGAIN;
DONE:
}""")
#: What v is complemented within; so 0 stands for the NaN of all ones, in whose place another NaN is published.
_LOW = tl.constexpr(0xFFFFFFFF)
_NAN = tl.constexpr(0x7FC00000)
#: The word of u = 0 and v = 1.
_NOTHING = tl.constexpr(0xFFFFFFFF ^ 0x3F800000)


@triton.jit
def fold(aggregates, part, parts, rows, n0, dn, row_ok, x, PART_BLOCK: tl.constexpr):
    """State before a part: the initial state ``x`` [BN] taken through [2, parts, rows] of all parts before it."""
    first = tl.arange(0, PART_BLOCK // FOLD)[:, None] * FOLD
    us, vs = (), ()
    for k in tl.static_range(FOLD):
        place = aggregates + n0 + ((first + k) * tl.cast(rows, tl.int64) + dn)
        keep = (first + k < part) & row_ok
        us = us + (tl.load(place, mask=keep, other=0.0),)
        vs = vs + (tl.load(place + tl.cast(parts, tl.int64) * rows, mask=keep, other=1.0),)
    u, v = compose_all(us, vs, FOLD)
    return apply(u, v, x)


@triton.jit
def clear(words, count):
    """Take back what an earlier call published in this memory."""
    index = tl.program_id(0).to(tl.int64) * CLEARED + tl.arange(0, CLEARED)
    tl.store(words + index, tl.zeros([CLEARED], tl.int64), mask=index < count)


@triton.jit
def _publish(place, u, v, keep):
    """Write (u, v) [BN] as words."""
    low = v.to(tl.int32, bitcast=True)
    low = ~tl.where(low == -1, _NAN, low)
    word = (u.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (low.to(tl.int64) & _LOW)
    tl.atomic_xchg(place, word[None, :], mask=keep, sem="relaxed", scope="gpu")


@triton.jit
def _await(place, count, row_ok, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    """(u, v) of ``count`` words that follow ``place`` [1, BN], composed, once all are there: [BN] each."""
    if OVERLAP:  # a word for each thread at least: of fewer, some would be copies, which the compiler reads many times
        threads: tl.constexpr = tl.extra.cuda.num_threads() // row_ok.shape[1]
        index = tl.arange(0, threads if threads > BLOCK else BLOCK)[:, None]
    else:
        index = tl.arange(0, BLOCK)[:, None]
    place = place + index
    word = tl.load(place, mask=(index < count) & row_ok, other=_NOTHING, volatile=True)
    if OVERLAP:  # else the programs before this one have ended
        word = tl.inline_asm_elementwise(
            _LOOK, "=&l,l,l", [word, place.to(tl.int64)], dtype=tl.int64, is_pure=False, pack=1
        )
    u = (word >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    v = (~word.to(tl.int32)).to(tl.float32, bitcast=True)
    return compose_all((u,), (v,), 1)


@triton.jit
def look_back(
    words, u, v, x, part, parts, n0, dn, row_ok, WINDOW: tl.constexpr, PART_BLOCK: tl.constexpr, OVERLAP: tl.constexpr
):  # fmt: skip
    """Publish (u, v) of a part, and take the initial state through all parts before it; all [BN].

    ``words`` is [rows, parts + PART_BLOCK]: each row's parts, and its groups (not used where there is one).
    """
    slots = parts + PART_BLOCK
    row_words = words + (n0 * slots + dn * slots)
    group, member = part // WINDOW, part % WINDOW
    _publish(row_words + part, u, v, row_ok)
    own_u, own_v = _await(row_words + group * WINDOW, member, row_ok, WINDOW, OVERLAP)
    if PART_BLOCK > 1:
        group_u, group_v = then(own_u, own_v, u, v)
        _publish(row_words + (parts + group), group_u, group_v, row_ok & (member == WINDOW - 1))
        group_u, group_v = _await(row_words + parts, group, row_ok, PART_BLOCK, OVERLAP)
        x = apply(group_u, group_v, x)
    return apply(own_u, own_v, x)
