// Command evm measures how fast the service indexes EVM chains and how fast it answers from
// the index. A simulated node serves made-up chains with receipts, logs and call traces; the
// service is built and run as users run it.
//
//	go -C bench run ./evm -txs 1000000
//	go -C bench run ./evm -chains 100 -txs 2000
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"quorate/bench/rig"
	"quorate/internal/simnet"
	"quorate/internal/simnet/evmchain"
)

// options are the flags.
type options struct {
	transactions, chains int
	memory, indexes      string
	idle, readTime       time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.transactions, "txs", 1_000_000, "`number` of transactions of each chain; each takes about 5 kB of temporary files")
	flag.IntVar(&o.chains, "chains", 1, "`number` of chains; one chain with as many transactions as all is measured before")
	flag.StringVar(&o.memory, "memory", "1GiB", "the service's memory limit")
	flag.StringVar(&o.indexes, "indexes", "", "`names` of optional indexes that are on, separated by commas")
	flag.DurationVar(&o.idle, "idle", 0, "`time` for which nothing happens, to measure what that costs, after as long a rest; 0 for none")
	flag.DurationVar(&o.readTime, "read", time.Second, "`time` for which each kind of page is requested, in each way")
	rig.Main(func(ctx context.Context, r *rig.Run) error {
		if o.chains < 1 || o.transactions < 1 {
			return fmt.Errorf("-chains %d -txs %d: both must be 1 or more", o.chains, o.transactions)
		}
		return run(ctx, r, o)
	})
}

// bench is what the steps share.
type bench struct {
	options
	*rig.Run
}

func run(ctx context.Context, r *rig.Run, o options) error {
	b := &bench{options: o, Run: r}
	if o.chains > 1 {
		if err := b.measure(ctx, 1, o.chains*o.transactions); err != nil {
			return err
		}
	}
	return b.measure(ctx, o.chains, o.transactions)
}

// measure measures a number of chains.
func (b *bench) measure(ctx context.Context, chains, transactions int) error {
	name := fmt.Sprintf("%d-chains", chains)
	dir, err := b.Folder(name)
	if err != nil {
		return err
	}
	o := simnet.Options{Seed: b.Seed, Validators: 1}
	for range chains {
		o.EVM = append(o.EVM, simnet.EVM{Options: evmchain.Options{L1: true, Txs: transactions}, Dir: dir})
	}
	network, err := rig.StartNetwork(ctx, "", o)
	if err != nil {
		return err
	}
	defer network.Stop()
	service, err := b.NewService(ctx, filepath.Join(name, "service"), "memory_limit: "+b.memory+"\n"+network.Settings("record: all", "evm_indexes: ["+b.indexes+"]"))
	if err != nil {
		return err
	}
	defer func() { _ = service.Stop(syscall.SIGTERM) }()
	if err := b.index(ctx, network, service); err != nil {
		return err
	}
	if chains == 1 {
		if err := b.read(ctx, network, service); err != nil {
			return err
		}
	}
	if b.idle > 0 {
		if err := b.rest(ctx, network, service); err != nil {
			return err
		}
	}
	if chains > 1 {
		return b.catchUp(ctx, network, service)
	}
	return nil
}

// index has the service index all chains.
func (b *bench) index(ctx context.Context, network *rig.Network, service *rig.Service) error {
	if err := service.Start(); err != nil {
		return err
	}
	left, err := service.Indexing(ctx, network)
	if err != nil {
		return err
	}
	cpu, node, begun := service.CPU(), rig.CPUTime(network.PID()), time.Now()
	requests := service.Meanwhile(ctx)
	var first time.Duration
	if err := service.Indexed(ctx, network.Heights, func(string) {
		if first == 0 {
			first = time.Since(begun)
		}
	}); err != nil {
		return err
	}
	last := time.Since(begun)
	cpu = service.CPU() - cpu
	node = rig.CPUTime(network.PID()) - node
	meanwhile, err := requests()
	if err != nil {
		return err
	}
	_, most := rig.Memory(service.PID())
	if err := service.Rest(ctx); err != nil {
		return err
	}
	size, err := rig.Size(service.DataDir())
	if err != nil {
		return err
	}
	table := b.Table("Indexing EVM chains", []string{"chains", "transactions"},
		rig.Column{Title: "transactions/s"}, rig.Column{Title: "CPU us/transaction", Decimals: 1}, rig.Column{Title: "of the node", Decimals: 1},
		rig.Column{Title: "MB per million"}, rig.Column{Title: "first caught up s", Decimals: 1}, rig.Column{Title: "last caught up s", Decimals: 1},
		rig.Column{Title: "most resident MB"}, rig.Column{Title: "requests meanwhile p50 ms", Decimals: 1}, rig.Column{Title: "requests meanwhile p99 ms", Decimals: 1})
	all := float64(network.AllTransactions())
	measured := left * all
	return table.Add([]string{strconv.Itoa(len(network.EVM)), strconv.Itoa(int(all))}, measured/last.Seconds(), rig.Microseconds(cpu)/measured, rig.Microseconds(node)/measured,
		float64(size)/all, first.Seconds(), last.Seconds(), most/1e6, rig.Milliseconds(meanwhile.P50), rig.Milliseconds(meanwhile.P99))
}

// sampled is the number of pages of transactions whose addresses are used in requests.
const sampled = 20

// read requests pages of the first chain while nothing else happens.
func (b *bench) read(ctx context.Context, network *rig.Network, service *rig.Service) error {
	base := fmt.Sprintf("/v1/chains/%d", network.EVM[0].ChainID)
	var wallets, deployers, deployed, collections []string
	next := ""
	for range sampled {
		var page struct {
			NextPageToken string
			Transactions  []struct {
				TxStatus string
				From, To struct{ Address string }
				Method   struct{ CallType, MethodHash string }
			}
		}
		if err := service.GetJSON(ctx, base+"/transactions?pageSize=100&pageToken="+next, &page); err != nil {
			return err
		}
		for _, transaction := range page.Transactions {
			wallets = append(wallets, transaction.From.Address)
			switch {
			case transaction.TxStatus != "1": // failed
			case transaction.Method.CallType == "CONTRACT_CREATION":
				deployers, deployed = append(deployers, transaction.From.Address), append(deployed, transaction.To.Address)
			case transaction.Method.MethodHash == "0x42842e0e": // safeTransferFrom of ERC-721
				collections = append(collections, transaction.To.Address)
			}
		}
		if next = page.NextPageToken; next == "" {
			break
		}
	}
	pages := rig.Pages{}
	for _, kind := range []struct {
		name, path string
		addresses  []string
	}{
		{"latest transactions", "/transactions?pageSize=100", []string{""}},
		{"internal transactions", "/addresses/%s/transactions:listInternals?pageSize=100", wallets},
		{"ERC-1155 transfers", "/addresses/%s/transactions:listErc1155?pageSize=100", wallets},
		{"ERC-1155 balances", "/addresses/%s/balances:listErc1155?pageSize=100", wallets},
		{"deployment transaction", "/contracts/%s/transactions:getDeployment?", deployed},
		{"deployments", "/contracts/%s/deployments?pageSize=100", deployers},
		{"tokens of a collection", "/nfts/collections/%s/tokens?pageSize=100", collections},
	} {
		if len(kind.addresses) == 0 {
			return fmt.Errorf("%s: the latest transactions name no address for it; use more with -txs", kind.name)
		}
		one := rig.PageKind{Name: kind.name}
		for i := range min(len(kind.addresses), rig.PathsPerKind) {
			path := kind.path
			if kind.addresses[i] != "" {
				path = fmt.Sprintf(path, kind.addresses[i])
			}
			if err := one.Add(ctx, service, base+path); err != nil {
				return err
			}
		}
		pages = append(pages, one)
	}
	table := b.PagesTable("Pages of an EVM chain", "transactions")
	return pages.Measure(ctx, table, service, 16, b.readTime, strconv.Itoa(network.AllTransactions()))
}

// rest measures the service while nothing happens.
func (b *bench) rest(ctx context.Context, network *rig.Network, service *rig.Service) error {
	if !rig.Pause(ctx, b.idle) { // until it polls nodes as rarely as it ever does
		return ctx.Err()
	}
	before, err := network.Counts()
	if err != nil {
		return err
	}
	begun, cpu := time.Now(), service.CPU()
	if !rig.Pause(ctx, b.idle) {
		return ctx.Err()
	}
	cpu = service.CPU() - cpu
	after, err := network.Counts()
	if err != nil {
		return err
	}
	seconds := time.Since(begun).Seconds()
	metrics, err := service.Metrics(ctx)
	if err != nil {
		return err
	}
	table := b.Table("Idle EVM chains", []string{"chains"},
		rig.Column{Title: "CPU ms/s", Decimals: 1}, rig.Column{Title: "requests/s to nodes", Decimals: 1},
		rig.Column{Title: "goroutines"}, rig.Column{Title: "files"}, rig.Column{Title: "resident MB"})
	return table.Add([]string{strconv.Itoa(len(network.EVM))}, rig.Milliseconds(cpu)/seconds, float64(after.Calls-before.Calls)/seconds,
		metrics["go_goroutines"], metrics["process_open_fds"], metrics["process_resident_memory_bytes"]/1e6)
}

// catchUp has the first chain grow by ten times its transactions at once, and the others by a block or two again and again,
// one after the other, until it has caught up. It measures how long after its growth each of these is indexed.
func (b *bench) catchUp(ctx context.Context, network *rig.Network, service *rig.Service) error {
	long := network.EVM[0].Name()
	if err := network.Grow(map[int]int{0: 10 * b.transactions}, nil); err != nil {
		return err
	}
	others := make(map[int]int)
	for i := 1; i < len(network.EVM); i++ {
		others[i] = 1
	}
	var all []time.Duration
	for {
		delays, err := service.Delays(ctx, func(grown func(rig.Growth)) error { return network.Grow(others, grown) })
		if err != nil {
			return err
		}
		all = append(all, delays...)
		status, err := service.Index(ctx)
		if err != nil {
			return err
		}
		if status[long].Next > network.Heights[long] {
			break
		}
	}
	table := b.Table("New blocks of all chains but one, which catches up", []string{"chains"},
		rig.Column{Title: "growth indexed after p50 ms"}, rig.Column{Title: "p99 ms"}, rig.Column{Title: "worst ms"}, rig.Column{Title: "growths of each"})
	times := rig.Summarize(all)
	return table.Add([]string{strconv.Itoa(len(network.EVM))}, rig.Milliseconds(times.P50), rig.Milliseconds(times.P99), rig.Milliseconds(times.Worst), float64(len(all)/len(others)))
}
