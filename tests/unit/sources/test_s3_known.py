"""The known keys: whatever is added and taken away, and whatever crashes, what is read is what was committed."""

from __future__ import annotations

import asyncio
import random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.source import Found
from airflow_provider_incremental.sources import s3_known, s3_known_blocks, s3_known_names
from airflow_provider_incremental.sources.s3_known import KnownKeys
from airflow_provider_incremental.sources.s3_known_blocks import decode_keys, encode_keys, split_keys
from airflow_provider_incremental.sources.s3_known_names import LAST, block_name, name_above, read_block, written_block
from airflow_provider_incremental.sources.s3_pages import key_order
from airflow_provider_incremental.sources.s3_sweep import Range
from tests.unit.sources.s3_memory import FakeMemory

PREFIX = "in/"
TEXTS = st.text(st.sampled_from("ab/\x00\n,é\U0010ffff\udcff\udcfe"), max_size=6)
EVERYTHING = Range(PREFIX)
STEPS = {"_STEP": 4, "_BEFORE": 16, "_MIDDLE": 64}  # so that the numbers run out


async def known(memory: FakeMemory, keys: Range = EVERYTHING, low: object = None) -> list[str]:
    """What a fresh process reads of a range."""
    fresh = KnownKeys(prefix=PREFIX)
    await fresh.open(memory, low)
    return [fresh.absolute(key) async for chunk in fresh.between(keys) for key in chunk]


async def committed(memory: FakeMemory, keys: KnownKeys, **changes: object) -> None:
    """Open, and commit one change."""
    await keys.open(memory, None)
    memory.change(await keys.commit(high=None, **changes))


@given(st.lists(st.binary(max_size=8), unique=True))
def test_keys_are_kept_byte_by_byte(keys):
    """Whatever bytes keys have, they come back; also those that separate them."""
    assert decode_keys(encode_keys(sorted(keys))) == sorted(keys)


@given(st.lists(st.binary(min_size=1, max_size=8), unique=True, max_size=60), st.none() | st.just(b"\xff" * 9))
def test_blocks_are_found_by_their_names(keys, edge):
    """Each key is in the first block whose name lies behind it, and the names sort as the keys."""
    keys.sort()
    with mock.patch.multiple(s3_known_blocks, _IN_A_BLOCK=4, _NEAR=2):
        parts = split_keys(keys, edge)
    assert [key for _, part in parts for key in part] == keys
    names = [block_name(upper) for upper, _ in parts]
    assert names == sorted(set(names))
    for key in keys:
        found = next(part for name, (_, part) in zip(names, parts, strict=True) if name > name_above(key))
        assert key in found


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_names_sort_as_the_edges(one, other):
    """A name is printable ASCII, means its edge, and stands among the others as its edge does."""
    assert read_block("", block_name(one), b"").edge == one
    assert block_name(one).isascii()
    assert block_name(one).isprintable()
    assert (block_name(one) < block_name(other)) == (one < other)
    assert block_name(one) < LAST == block_name(None)
    assert read_block("", LAST, b"").edge is None


@pytest.mark.parametrize("places", [[0] * 50, [-1] * 5000, [0] * 20 + [-1] * 100 + [60] * 30])
def test_numbered_names(places):
    """Edges that only differ far behind their beginning have names in their order, wherever new ones come between."""
    start = b"x" * 500
    names = ["", LAST]
    for place in places:
        at = len(names) - 1 if place < 0 else place + 1
        name = block_name(start + b"%06d" % at, below=names[at - 1], above=names[at])
        assert names[at - 1] < name < names[at]
        assert len(name) < 230
        names.insert(at, name)
    assert read_block("", names[1], written_block(names[1], start, [b"k"])).edge == start


def test_no_room_between_names():
    """Where numbers have run out, a block is not split."""
    edge, above = b"x" * 500, block_name(b"x" * 501)
    below = block_name(edge, above=above)
    while below is not None:
        assert below < above
        last, below = below, block_name(edge, below=below, above=above)
    assert int(above[-20:], 16) - int(last[-20:], 16) == 1


async def test_long_keys_hold_nobody_up():
    """Of 100,000 keys that only differ behind their first 900 bytes, no step of a commit or a look sees all."""
    start, memory, keys = PREFIX + "x" * 900, FakeMemory(), KnownKeys(prefix=PREFIX)
    for at in range(0, 100_000, 1000):
        await committed(memory, keys, added=[f"{start}{number * 7919 % 100_000:06}" for number in range(at, at + 1000)])
    await keys.open(memory, None)
    sizes = [len(chunk) async for chunk in keys.between(EVERYTHING)]
    assert sum(sizes) == 100_000
    assert max(sizes) < 16_384
    assert await known(memory, Range(PREFIX, f"{start}050000", f"{start}050003")) == [
        f"{start}{number:06}" for number in (50_001, 50_002, 50_003)
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(TEXTS, max_size=8), st.sets(TEXTS, max_size=4), st.sampled_from(["", "", "dies", "restart"])),
        max_size=30,
    ),
    st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=5),
    st.sampled_from([1, 3, 200]),
)
def test_reads_what_was_committed(changes, ranges, longest):
    """Commits by two processes, some of which never came to be: any range holds the keys that were added last."""
    small = {"_FOLD_FROM_LOGS": 3, "_FOLD_FROM_KEYS": 12, "_FOLDED_AT_ONCE": 2, "_BLOCKS_AT_ONCE": 2}

    async def live() -> None:
        memory, model = FakeMemory(), set()
        processes = [KnownKeys(prefix=PREFIX), KnownKeys(prefix=PREFIX)]
        for number, (added, removed, fate) in enumerate(changes):
            each = processes[number % 3 % 2]
            await each.open(memory, None)
            gone = [each.relative(PREFIX + text) for text in removed - added]
            pieces = await each.commit(high=None, added=[PREFIX + text for text in added], removed=gone)
            Found(high=None, remember=pieces)
            if fate != "dies":
                memory.change(pieces)
                model = (model - removed) | added
            if fate == "restart":
                processes[number % 3 % 2] = KnownKeys(prefix=PREFIX)
        assert await known(memory) == sorted(map(PREFIX.__add__, model), key=key_order)
        for one, other, split in ranges:
            low, high = sorted([PREFIX + one, PREFIX + other], key=key_order)
            keys = Range(PREFIX, low, high) if split else Range(PREFIX + one)
            inside = {
                text
                for text in map(PREFIX.__add__, model)
                if (key_order(low) < key_order(text) <= key_order(high) if split else text.startswith(PREFIX + one))
            }
            assert await known(memory, keys) == sorted(inside, key=key_order)

    with (
        mock.patch.multiple(s3_known, **small),
        mock.patch.multiple(s3_known_blocks, _IN_A_BLOCK=3, _NEAR=2),
        mock.patch.multiple(s3_known_names, _FROM_EDGE=longest, **STEPS),
    ):
        asyncio.run(live())


@pytest.mark.parametrize("order", ["growing", "falling", "random"])
async def test_a_commit_writes_little_whatever_the_order(order):
    """100,000 keys, 1,000 a commit: each commit writes a bounded number of pieces, and the log stays short."""
    numbers = list(range(100_000))
    if order == "falling":
        numbers.reverse()
    if order == "random":
        random.Random(7).shuffle(numbers)
    memory, keys = FakeMemory(), KnownKeys(prefix=PREFIX)
    written = []
    for start in range(0, len(numbers), 1000):
        await keys.open(memory, None)
        pieces = await keys.commit(high=None, added=[f"{PREFIX}day/{number:09}" for number in numbers[start:][:1000]])
        written.append(sum(map(len, filter(None, pieces.values()))))
        memory.change(pieces)
    assert await known(memory) == [f"{PREFIX}day/{number:09}" for number in range(100_000)]
    assert max(written) < 500_000
    assert sum("/log/" in name for name in memory.pieces) <= 30
    assert sum(map(len, memory.pieces.values())) < 8 * 100_000


async def test_a_poll_reads_a_block_once():
    """A look at all keys costs one read for some thousands of them."""
    memory, keys = FakeMemory(), KnownKeys(prefix=PREFIX)
    for start in range(0, 100_000, 10_000):
        await committed(memory, keys, added=[f"{PREFIX}{number:09}" for number in range(start, start + 10_000)])
    await keys.open(memory, None)
    memory.reads = 0
    assert sum([len(chunk) async for chunk in keys.between(EVERYTHING)]) == 100_000
    assert memory.reads <= 10


async def test_another_position_means_another_look():
    """When somebody else has moved the watermark, what is there has to be noted again; what is known stays."""
    memory, keys = FakeMemory(), KnownKeys(prefix=PREFIX)
    await keys.open(memory, None)
    assert keys.noted_to is None
    memory.change(await keys.commit(high="b", added=["in/a"]))
    await keys.open(memory, "b")
    assert keys.noted_to is None
    await keys.open(memory, "c")
    assert keys.noted_to == ""
    memory.change(await keys.commit(high="c", added=["in/b"], noted_to="in/b"))
    await keys.open(memory, "c")
    assert keys.noted_to == "in/b"
    assert await known(memory, low="c") == ["in/a", "in/b"]
