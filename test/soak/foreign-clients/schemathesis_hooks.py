"""What Schemathesis does not know: the format http-url, and which paths it cannot send."""

import schemathesis
from hypothesis import strategies

schemathesis.openapi.format(
    "http-url",
    strategies.from_regex(r"\A[hH][tT][tT][pP][sS]?://[a-z]{1,20}\.example/[!-~]{0,200}\Z"),
)


@schemathesis.hook
def filter_path_parameters(context, path_parameters):
    """Leaves out what Schemathesis sends as a part of the URL after its path."""
    return not any(character in str(path_parameters) for character in "#?")
