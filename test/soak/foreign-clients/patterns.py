"""Compiles the patterns that are given as JSON on standard input."""

import json
import re
import sys
import warnings

warnings.simplefilter("error")
for pattern in json.load(sys.stdin):
    re.compile(pattern)
