// clone, fetch and push with go-git 5: see git-clients.ts.
package main

import (
	"fmt"
	"os"
	"strconv"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/http"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil && err != git.NoErrAlreadyUpToDate {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(operation, url, folder, first, second string) error {
	var auth transport.AuthMethod
	if token := os.Getenv("TOKEN"); token != "" {
		auth = &http.BasicAuth{Username: "x", Password: token}
	}
	if operation == "clone" {
		if second != "" {
			os.Exit(3)
		}
		depth, _ := strconv.Atoi(first)
		_, err := git.PlainClone(folder, true, &git.CloneOptions{URL: url, Auth: auth, Depth: depth})
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
		return remote.Fetch(&git.FetchOptions{RefSpecs: []config.RefSpec{spec}, Auth: auth, Tags: git.NoTags})
	}
	options := &git.PushOptions{RefSpecs: []config.RefSpec{config.RefSpec(first)}, Auth: auth, RemoteName: "anonymous"}
	if second != "" {
		options.Options = map[string]string{second: ""}
	}
	return remote.Push(options)
}
