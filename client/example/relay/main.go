// Command relay delivers the Warp messages that one transaction sent to another chain. It shows package client at work:
// the service finds the messages and signs them for the destination's current epoch, and the command carries each of
// them into a contract call there.
//
//	export RELAY_KEY=56289e99...  # pays on the destination
//	relay --server http://127.0.0.1:8080 --network fuji --source c-chain --tx 0x7f3c... \
//	  --destination 2q9e4... --rpc http://127.0.0.1:9650/ext/bc/2q9e4.../rpc \
//	  --to 0x253b27... --data 0xccb5f809...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
	"github.com/ava-labs/libevm/common/hexutil"
	"github.com/ava-labs/libevm/crypto"

	"quorate/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv("RELAY_KEY"), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

// flags are the flags of the command.
type flags struct {
	server, network     string
	source, tx          string
	destination, subnet string
	rpc, to, data       string
	gas                 uint64
	timeout             time.Duration
}

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("relay", flag.ContinueOnError)
	set.StringVar(&f.server, "server", "http://127.0.0.1:8080", "`URL` of the quorate service")
	set.StringVar(&f.network, "network", "fuji", "`name` of the network on the service")
	set.StringVar(&f.source, "source", client.CChain, "`chain` that the messages were sent on: c-chain, or a blockchain ID or EVM chain ID that the service is configured with")
	set.StringVar(&f.tx, "tx", "", "`hash` of the transaction that sent the messages")
	set.StringVar(&f.destination, "destination", "", "blockchain `ID` of the destination")
	set.StringVar(&f.subnet, "signing-subnet", "", "`ID` of the subnet that signs (default: that of the source). An L1 lets its own validators sign messages of the C-Chain, unless its Warp precompile requires those of the primary network")
	set.StringVar(&f.rpc, "rpc", "", "`URL` of the destination's Ethereum API")
	set.StringVar(&f.to, "to", "", "`address` of the contract that receives the messages")
	set.StringVar(&f.data, "data", "0x", "call data in `hex`; the contract finds the message at index 0")
	set.Uint64Var(&f.gas, "gas", 1_000_000, "gas `limit` of a delivery; an estimate does not see the message")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "`time` for all of it")
	err := set.Parse(args)
	if err == nil && (f.tx == "" || f.destination == "" || f.rpc == "" || !common.IsHexAddress(f.to)) {
		err = errors.New("--tx, --destination, --rpc and --to are needed")
	}
	return f, err
}

func run(ctx context.Context, args []string, key string, out io.Writer) error {
	f, err := parse(args)
	if err != nil {
		return err
	}
	options := client.SignOptions{}
	destination, err := ids.FromString(f.destination)
	if err != nil {
		return fmt.Errorf("--destination: %w", err)
	}
	options.VerifyingBlockchainID = &destination
	if f.subnet != "" {
		subnet, err := ids.FromString(f.subnet)
		if err != nil {
			return fmt.Errorf("--signing-subnet: %w", err)
		}
		options.SigningSubnetID = &subnet
	}
	tx, err := hexutil.Decode(f.tx)
	if err != nil || len(tx) != common.HashLength {
		return fmt.Errorf("--tx: %q is not a hash: want 0x and 64 hex digits", f.tx)
	}
	data, err := hexutil.Decode(f.data)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	secret, err := crypto.HexToECDSA(key)
	if err != nil {
		return fmt.Errorf("RELAY_KEY: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()

	service, err := client.New(client.Options{URL: f.server, Network: f.network})
	if err != nil {
		return err
	}
	defer service.Close()
	sent, err := service.SignEVMTransaction(ctx, f.source, common.BytesToHash(tx), options)
	if err != nil {
		return fmt.Errorf("signing the messages of %s: %w", f.tx, err)
	}
	d := &deliverer{rpc: f.rpc, key: secret, to: common.HexToAddress(f.to), data: data, gas: f.gas}
	for _, m := range sent {
		id := m.Unsigned.ID()
		if m.Err != nil {
			return fmt.Errorf("signing message %s: %w", id, m.Err)
		}
		hash, err := d.deliver(ctx, m.Signed.Bytes())
		if err != nil {
			return fmt.Errorf("delivering message %s: %w", id, err)
		}
		fmt.Fprintln(out, id, hash)
	}
	return nil
}
