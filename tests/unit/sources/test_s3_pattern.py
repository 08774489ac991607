"""The glob rules of keys, against a matcher that is slow and plainly right."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.s3_pattern import compile_choice, compile_pattern


def matches(pattern: str, key: str) -> bool:
    return compile_pattern(pattern).fullmatch(key) is not None


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.csv", ["a.csv", ".csv", "a b.csv", "a\n.csv"], ["x/a.csv", "/a.csv", "a.csvx", "a.CSV"]),
        ("**.csv", ["a.csv", "x/y/a.csv", "/a.csv"], ["a.txt"]),
        ("**/*.csv", ["a.csv", "x/a.csv", "x/y/a.csv", "/a.csv", "//a.csv"], ["a.txt", "x/a.csv/b"]),
        ("x/**/a", ["x/a", "x/y/a", "x/y/z/a", "x//a"], ["xa", "x/ya", "y/x/a"]),
        ("x/**", ["x/", "x/y", "x/y/z"], ["x", "xy"]),
        ("x**/a", ["x/a", "xy/a", "x/y/a"], ["xa"]),
        ("?", ["a", "é", "😀", "\n", "?"], ["", "ab", "/"]),
        ("d/2024-0[1-3]*.zip", ["d/2024-01.zip"], ["d/2024-01.txt", "d/2024-09.zip", "d/[x].zip"]),
        ("d/[[]x].zip", ["d/[x].zip"], ["d/x.zip"]),
        ("[!a]", ["b", "!"], ["a", "/", ""]),
        ("[]]", ["]"], ["["]),
        ("[!]]", ["["], ["]", "/"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[+--]", ["+", ",", "-"], ["/", "."]),
        ("[^a]", ["^", "a"], ["b"]),
        ("[*][?]", ["*?"], ["ab"]),
        ("[&&x||~~-]", ["&", "x", "|", "~", "-"], ["a"]),
        ("a\\b.c+", ["a\\b.c+"], ["ab.c", "a\\bxcc"]),
        ("]", ["]"], ["["]),
    ],
)
def test_rules(pattern, matching, other):
    """Each rule of the documented table, with what it takes and what it does not."""
    assert [key for key in matching if not matches(pattern, key)] == []
    assert [key for key in other if matches(pattern, key)] == []


@pytest.mark.parametrize("pattern", ["[", "a[bc", "[]", "[!]", "x/[!", "[z-a]", ""])
def test_bad_patterns_are_refused(pattern):
    """A pattern that cannot mean anything is refused with its text and the remedy."""
    with pytest.raises(ConfigurationError, match=f"pattern={re.escape(repr(pattern))}"):
        compile_pattern(pattern)


def plainly(pattern: str, key: str) -> bool:
    """The rules without sets, by trying everything."""

    @cache
    def fits(p: int, k: int) -> bool:
        if p == len(pattern):
            return k == len(key)
        if pattern[p] == "*":
            end = p
            while pattern[end : end + 1] == "*":
                end += 1
            if end - p == 1:
                return any(fits(end, to) for to in range(k, len(key) + 1) if "/" not in key[k:to])
            if pattern[end : end + 1] == "/" and (p == 0 or pattern[p - 1] == "/"):
                return fits(end + 1, k) or any(fits(end, to) for to in range(k, len(key)) if key[to] == "/")
            return any(fits(end, to) for to in range(k, len(key) + 1))
        if k == len(key):
            return False
        if pattern[p] == "?":
            return key[k] != "/" and fits(p + 1, k + 1)
        return pattern[p] == key[k] and fits(p + 1, k + 1)

    return fits(0, 0)


@settings(max_examples=2000)
@given(pattern=st.text("ab/*?", min_size=1, max_size=12), key=st.text("ab/", max_size=12))
@example(pattern="**/a*/**/b", key="a/ab/a/b")
@example(pattern="*a*/b**a", key="aa/baa")
@example(pattern="**a*b*/**a", key="abab/ba/a")
def test_equals_the_plain_matcher(pattern, key):
    """Tying parts to their first fit changes no answer."""
    assert matches(pattern, key) == plainly(pattern, key)


@pytest.mark.parametrize(
    "pattern", ["*a" * 20 + "b", "**a" * 20 + "b", "**/*a" * 20 + "b", "*a*/" * 6 + "**b", "**a*a*a*a*b"]
)
def test_no_key_makes_a_pattern_slow(pattern):
    """Whoever may write a key cannot stall the process with it: tried in every way, these would take years."""
    keys = ["a" * 1024, "a/" * 512, "aa/" * 340]
    assert [key for key in keys if matches(pattern, key)] == []


def test_regular_expression_that_the_documentation_recommends():
    """Repeated repetition, written so that it cannot be tried in many ways, takes no time on a key that fits nearly."""
    pattern = compile_choice(None, "(?>a+)+b")
    assert pattern.fullmatch("a" * 1024) is None
    assert pattern.fullmatch("a" * 1023 + "b")
