"""The JSON schemas of scalars: what the API's description promises to take, no more than every store can keep."""

from __future__ import annotations

from typing import Any

__all__ = ["BASE64", "FREE_TEXT", "INTEGER", "LONGEST_SPAN", "MARKS", "SECONDS", "TEXT", "TIME"]

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "pattern": r"^[^\x00]*$"}
FREE_TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer", "minimum": -(2**53), "maximum": 2**53}
LONGEST_SPAN = 3e9
"""Seconds: 95 years. What is longer is as good as for ever, and no date of a database is that far away."""
SECONDS: Schema = {"type": "number", "minimum": -LONGEST_SPAN, "maximum": LONGEST_SPAN}
TIME: Schema = {"type": "string", "format": "date-time"}
BASE64: Schema = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
MARKS: Schema = {
    "type": "string",
    "contentEncoding": "base64",
    "description": "16 bytes each, one after the other",
    "pattern": "^(?:[A-Za-z0-9+/]{64})*(?:[A-Za-z0-9+/]{22}==|[A-Za-z0-9+/]{43}=)?$",
}
