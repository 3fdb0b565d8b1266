package main

import "quorate/handlers/rpc"

// addIndexes answers for the index of accepted containers.
func addIndexes(a *nodeAPI) error {
	for _, index := range []string{"C/block", "P/block", "X/block", "X/tx", "X/vtx"} {
		if err := a.addService("index/"+index, "", "/ext/index/"+index, rpc.Endpoint{}); err != nil {
			return err
		}
	}
	return nil
}
