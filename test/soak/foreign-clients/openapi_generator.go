// Reports and reads with the client that openapi-generator writes for Go.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"foreign/api"
)

func main() {
	ctx := context.WithValue(context.Background(), api.ContextAccessToken, os.Getenv("TOKEN"))
	owner, repo, sha, name := os.Getenv("OWNER"), os.Getenv("REPO"), os.Getenv("SHA"), os.Getenv("CONTEXT")
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: os.Getenv("BASE_URL")}}
	statuses := api.NewAPIClient(configuration).StatusesAPI

	before, _, err := statuses.ListStatuses(ctx, owner, repo, sha).Execute()
	check(err == nil, err)
	check(before.State.Get() == nil && len(before.Statuses) == 0, before)

	report := api.NewStatusReport(api.SUCCESS)
	report.SetContext(name)
	stored, _, err := statuses.ReportStatus(ctx, owner, repo, sha).StatusReport(*report).Execute()
	check(err == nil, err)
	check(stored.Context == name && stored.Description.Get() == nil, stored)

	after, response, err := statuses.ListStatuses(ctx, owner, repo, sha).Execute()
	check(err == nil, err)
	check(*after.State.Get() == "success" && after.Statuses[0].Id == stored.Id, after)

	_, response, _ = statuses.ListStatuses(ctx, owner, repo, sha).IfNoneMatch(response.Header.Get("ETag")).Execute()
	check(response.StatusCode == 304, response)

	verdict, _, err := statuses.GetVerdict(ctx, owner, repo, sha).Require([]string{"*", "none"}).Wait(1).Execute()
	check(err == nil, err)
	check(verdict.Verdict == "pending" && verdict.Required[0].Contexts[0] == name, verdict)

	_, response, err = statuses.ListStatuses(ctx, owner, repo, strings.Repeat("0", 40)).Execute()
	check(response.StatusCode == 404, err)
}

func check(holds bool, found any) {
	if !holds {
		log.Panicf("found: %+v", found)
	}
}
