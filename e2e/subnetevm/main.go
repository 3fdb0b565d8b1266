// Command subnetevm is the plugin of avalanchego that runs subnet-evm chains. Unlike the published one it does not raise
// the limit of open files, which a test machine may not allow.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ava-labs/avalanchego/graft/subnet-evm/plugin/evm"
	"github.com/ava-labs/avalanchego/vms/rpcchainvm"
)

func main() {
	evm.RegisterAllLibEVMExtras()
	if err := rpcchainvm.Serve(context.Background(), &evm.VM{}); err != nil {
		fmt.Fprintf(os.Stderr, "subnetevm: serving the VM: %v\n", err)
		os.Exit(1)
	}
}
