// clone, fetch and push with go-git 6: see git-clients.ts.
package main

import (
	"fmt"
	"os"
	"strconv"

	git "github.com/go-git/go-git/v6"
	"github.com/go-git/go-git/v6/config"
	"github.com/go-git/go-git/v6/plumbing/client"
	"github.com/go-git/go-git/v6/plumbing/protocol/packp"
	"github.com/go-git/go-git/v6/plumbing/transport/http"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil && err != git.NoErrAlreadyUpToDate {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(operation, url, folder, first, second string) error {
	var options []client.Option
	if token := os.Getenv("TOKEN"); token != "" {
		options = append(options, client.WithHTTPAuth(&http.BasicAuth{Username: "x", Password: token}))
	}
	if operation == "clone" {
		depth, _ := strconv.Atoi(first)
		_, err := git.PlainClone(folder, &git.CloneOptions{URL: url, ClientOptions: options, Depth: depth, Filter: packp.Filter(second), Bare: true})
		return err
	}
	repository, err := git.PlainOpen(folder)
	if err != nil {
		return err
	}
	remote, err := repository.CreateRemoteAnonymous(&config.RemoteConfig{Name: "anonymous", URLs: []string{url}})
	if err != nil {
		return err
	}
	if operation == "fetch" {
		spec := config.RefSpec("+" + first + ":" + second)
		if len(first) == 40 {
			spec = config.RefSpec(first + ":" + second)
		}
		return remote.Fetch(&git.FetchOptions{RefSpecs: []config.RefSpec{spec}, ClientOptions: options, Tags: git.NoTags})
	}
	push := &git.PushOptions{RefSpecs: []config.RefSpec{config.RefSpec(first)}, ClientOptions: options, RemoteName: "anonymous"}
	if second != "" {
		push.Options = []string{second}
	}
	return remote.Push(push)
}
