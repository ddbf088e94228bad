// Compiles the patterns that are given as JSON on standard input.
package main

import (
	"encoding/json"
	"os"
	"regexp"
)

func main() {
	var patterns []string
	if err := json.NewDecoder(os.Stdin).Decode(&patterns); err != nil {
		panic(err)
	}
	for _, pattern := range patterns {
		regexp.MustCompile(pattern)
	}
}
