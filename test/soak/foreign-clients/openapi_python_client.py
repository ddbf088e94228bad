"""Reports and reads with the client that openapi-python-client writes."""

import os

from api_client import AuthenticatedClient
from api_client.api.statuses import get_verdict, list_statuses, report_status
from api_client.models import CommitStatuses, Error, State, Status, StatusReport

BASE_URL, TOKEN, OWNER, REPO, SHA, CONTEXT = (
    os.environ[name] for name in ("BASE_URL", "TOKEN", "OWNER", "REPO", "SHA", "CONTEXT")
)

with AuthenticatedClient(base_url=BASE_URL, token=TOKEN) as client:
    before = list_statuses.sync(OWNER, REPO, SHA, client=client)
    assert isinstance(before, CommitStatuses) and before.state is None and before.statuses == [], before
    report = StatusReport(state=State.SUCCESS, context=CONTEXT)
    stored = report_status.sync(OWNER, REPO, SHA, client=client, body=report)
    assert isinstance(stored, Status) and stored.context == CONTEXT and stored.description is None, stored
    after = list_statuses.sync_detailed(OWNER, REPO, SHA, client=client)
    assert after.parsed.state == "success" and [status.id for status in after.parsed.statuses] == [stored.id], after
    again = list_statuses.sync_detailed(OWNER, REPO, SHA, client=client, if_none_match=after.headers["etag"])
    assert again.status_code == 304, again
    verdict = get_verdict.sync(OWNER, REPO, SHA, client=client, require=["*", "none"], wait=1)
    assert verdict.verdict == "pending" and verdict.required[0].contexts == [CONTEXT], verdict
    missing = list_statuses.sync(OWNER, REPO, "0" * 40, client=client)
    assert isinstance(missing, Error) and "commit" in missing.error, missing
