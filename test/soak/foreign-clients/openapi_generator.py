"""Reports and reads with the client that openapi-generator writes for Python, with the token in either form."""

import os

import openapi_client as api

BASE_URL, TOKEN, OWNER, REPO, SHA, CONTEXT = (
    os.environ[name] for name in ("BASE_URL", "TOKEN", "OWNER", "REPO", "SHA", "CONTEXT")
)
bearer = api.Configuration(host=BASE_URL, access_token=TOKEN)
token = api.Configuration(host=BASE_URL, api_key={"accessToken": TOKEN}, api_key_prefix={"accessToken": "token"})

with api.ApiClient(bearer) as one, api.ApiClient(token) as other:
    before = api.StatusesApi(one).list_statuses(OWNER, REPO, SHA)
    assert before.state is None and before.statuses == [], before
    report = api.StatusReport(state=api.State.SUCCESS, context=CONTEXT)
    stored = api.StatusesApi(one).report_status(OWNER, REPO, SHA, report)
    assert stored.context == CONTEXT and stored.description is None, stored
    after = api.StatusesApi(other).list_statuses_with_http_info(OWNER, REPO, SHA)
    assert after.data.state == "success" and [status.id for status in after.data.statuses] == [stored.id], after
    verdict = api.StatusesApi(other).get_verdict(OWNER, REPO, SHA, require=["*", "none"], wait=1)
    assert verdict.verdict == "pending" and verdict.required[0].contexts == [CONTEXT], verdict
    try:
        api.StatusesApi(other).list_statuses(OWNER, REPO, "0" * 40)
        raise AssertionError("an unknown commit was found")
    except api.ApiException as error:
        assert error.status == 404 and "commit" in error.data.error, error
