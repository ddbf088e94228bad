// Reports and reads with the client that oapi-codegen writes.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"strings"

	"foreign/api"
)

func main() {
	ctx := context.Background()
	owner, repo, sha, name := os.Getenv("OWNER"), os.Getenv("REPO"), os.Getenv("SHA"), os.Getenv("CONTEXT")
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "token "+os.Getenv("TOKEN"))
		return nil
	}
	client, err := api.NewClientWithResponses(os.Getenv("BASE_URL"), api.WithRequestEditorFn(authorize))
	check(err == nil, err)

	before, err := client.ListStatusesWithResponse(ctx, owner, repo, sha, nil)
	check(err == nil && before.JSON200 != nil, err)
	check(before.JSON200.State == nil && len(before.JSON200.Statuses) == 0, before.JSON200)

	stored, err := client.ReportStatusWithResponse(ctx, owner, repo, sha, api.StatusReport{
		State:   api.StateSuccess,
		Context: &name,
	})
	check(err == nil && stored.JSON201 != nil, err)
	check(stored.JSON201.Context == name && stored.JSON201.Description == nil, stored.JSON201)

	after, err := client.ListStatusesWithResponse(ctx, owner, repo, sha, nil)
	check(err == nil && after.JSON200 != nil, err)
	check(*after.JSON200.State == api.CommitStatusesStateSuccess, after.JSON200)
	check(after.JSON200.Statuses[0].Id == stored.JSON201.Id, after.JSON200)

	etag := after.HTTPResponse.Header.Get("ETag")
	again, err := client.ListStatusesWithResponse(ctx, owner, repo, sha, &api.ListStatusesParams{IfNoneMatch: &etag})
	check(err == nil && again.StatusCode() == 304, err)

	require := []api.ContextPattern{"*", "none"}
	verdict, err := client.GetVerdictWithResponse(ctx, owner, repo, sha, &api.GetVerdictParams{Require: &require})
	check(err == nil && verdict.JSON200 != nil, err)
	check(verdict.JSON200.Verdict == "pending" && verdict.JSON200.Required[0].Contexts[0] == name, verdict.JSON200)

	missing, err := client.ListStatusesWithResponse(ctx, owner, repo, strings.Repeat("0", 40), nil)
	check(err == nil && missing.JSON404 != nil, err)
	check(strings.Contains(missing.JSON404.Error, "commit"), missing.JSON404)
}

func check(holds bool, found any) {
	if !holds {
		log.Panicf("found: %+v", found)
	}
}
