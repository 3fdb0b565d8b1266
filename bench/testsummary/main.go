// Command testsummary adds up the results of several test runs (test2json files)
// and prints them on one line. It fails if a test failed or none ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
)

type event struct {
	Action, Package, Test string
}

func main() {
	log.SetFlags(0)
	counts := make(map[string]int)
	for _, path := range os.Args[1:] {
		if err := count(path, counts); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", counts["pass"], counts["fail"], counts["skip"])
	if counts["fail"] > 0 || counts["pass"] == 0 {
		os.Exit(1)
	}
}

// count adds the outcomes of one run; a package that fails without a failing
// test (it does not build, or times out) counts as one failure.
func count(path string, counts map[string]int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	failed := make(map[string]bool)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		switch {
		case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		case e.Test != "":
			counts[e.Action]++
			failed[e.Package] = failed[e.Package] || e.Action == "fail"
		case e.Action == "fail" && !failed[e.Package]:
			counts["fail"]++
		}
	}
	return lines.Err()
}
