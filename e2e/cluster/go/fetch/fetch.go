// Command fetch prints what an HTTP server answers, and fails when none does within the time: fetch URL [SECONDS].
// It is in the toolbox image since busybox's wget, linked statically against glibc, crashes when it looks up a name.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: fetch URL [SECONDS]")
		os.Exit(2)
	}
	limit := 2 * time.Second
	if len(os.Args) > 2 {
		seconds, err := time.ParseDuration(os.Args[2] + "s")
		check(err)
		limit = seconds
	}
	answer, err := (&http.Client{Timeout: limit}).Get(os.Args[1])
	check(err)
	_, err = io.Copy(os.Stdout, answer.Body)
	check(err)
	if answer.StatusCode >= 400 {
		check(fmt.Errorf("%s answers %s", os.Args[1], answer.Status))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
