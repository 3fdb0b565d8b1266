// Command build builds the programs of the nodes into the cache folder of the tests, so that the timeout of go test does
// not include that.
package main

import (
	"flag"
	"fmt"
	"os"

	"quorate/e2e/localnet"
)

func main() {
	withSubnetEVM := flag.Bool("subnet-evm", false, "also build the plugin for subnet-evm chains")
	flag.Parse()
	if err := localnet.Build(*withSubnetEVM); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
