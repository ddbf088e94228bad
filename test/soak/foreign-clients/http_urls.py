"""Tells Schemathesis which text has the format http-url, which the contract defines in words."""

import schemathesis
from hypothesis import strategies

schemathesis.openapi.format(
    "http-url",
    strategies.from_regex(r"\A[hH][tT][tT][pP][sS]?://[a-z]{1,20}\.example/[!-~]{0,200}\Z"),
)
