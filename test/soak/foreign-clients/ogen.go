// Reports and reads with the client that ogen writes.
package main

import (
	"context"
	"log"
	"os"
	"strings"

	"foreign/api"

	"github.com/ogen-go/ogen/ogenerrors"
)

type source struct{}

func (source) BearerToken(context.Context, api.OperationName) (api.BearerToken, error) {
	return api.BearerToken{Token: os.Getenv("TOKEN")}, nil
}

func (source) AccessToken(context.Context, api.OperationName) (api.AccessToken, error) {
	return api.AccessToken{}, ogenerrors.ErrSkipClientSecurity
}

func main() {
	ctx := context.Background()
	owner, repo, sha := api.Name(os.Getenv("OWNER")), api.Name(os.Getenv("REPO")), api.CommitId(os.Getenv("SHA"))
	client, err := api.NewClient(os.Getenv("BASE_URL"), source{})
	check(err == nil, err)
	list := func(params api.ListStatusesParams) api.ListStatusesRes {
		result, err := client.ListStatuses(ctx, params)
		check(err == nil, err)
		return result
	}

	commit := api.ListStatusesParams{Owner: owner, Repo: repo, Sha: sha}
	before, ok := list(commit).(*api.CommitStatusesHeaders)
	check(ok && before.Response.State.IsNull() && len(before.Response.Statuses) == 0, before)

	report := api.StatusReport{State: api.StateSuccess, Context: api.NewOptContext(api.Context(os.Getenv("CONTEXT")))}
	result, err := client.ReportStatus(ctx, &report, api.ReportStatusParams{Owner: owner, Repo: repo, Sha: sha})
	check(err == nil, err)
	stored, ok := result.(*api.StatusHeaders)
	check(ok && stored.Response.Description.IsNull(), result)

	after, ok := list(commit).(*api.CommitStatusesHeaders)
	check(ok && after.Response.Statuses[0].ID == stored.Response.ID, after)

	commit.IfNoneMatch = api.NewOptString(after.ETag)
	_, ok = list(commit).(*api.ListStatusesNotModified)
	check(ok, "no 304")

	decided, err := client.GetVerdict(ctx, api.GetVerdictParams{
		Owner: owner, Repo: repo, Sha: sha, Require: []api.ContextPattern{"*", "none"},
	})
	check(err == nil, err)
	verdict, ok := decided.(*api.CommitVerdictHeaders)
	check(ok && verdict.Response.Verdict == "pending" && len(verdict.Response.Required[0].Contexts) == 1, decided)

	commit = api.ListStatusesParams{Owner: owner, Repo: repo, Sha: api.CommitId(strings.Repeat("0", 40))}
	missing, ok := list(commit).(*api.NotFoundHeaders)
	check(ok && strings.Contains(missing.Response.Error, "commit"), missing)
}

func check(holds bool, found any) {
	if !holds {
		log.Panicf("found: %+v", found)
	}
}
