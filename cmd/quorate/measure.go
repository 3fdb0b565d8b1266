package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
	"quorate/internal/measure"
	"quorate/internal/node"
	"quorate/internal/service/logs"
	"quorate/internal/service/network"
)

// measureFlags holds the flags of measure.
type measureFlags struct {
	nodeFlags
	measure.Settings
	chain, rpc, subnet string
	rate               string
	csv, html, save    string
	compare            bool
	asJSON             bool
	limit              int
}

func newMeasure() *cobra.Command {
	var f measureFlags
	cmd := &cobra.Command{
		Use:   "measure {--node URL | --compare A B}",
		Short: "Measure how fast validators sign",
		Long: `Measure the quorum latency of a network: how long its validators take to sign.

Each round asks all validators of a subnet to sign the hash of a block that the chain has
just accepted. The validators of EVM chains sign the hash of any accepted block. The command
verifies each signature. It prints, for the subnet, the times until 33, 50, 67, 80 and 90%
of the weight had signed, and for each node its answers, times and version.

  quorate measure --node http://127.0.0.1:9650
  quorate measure --node http://127.0.0.1:9650 --allow-private-ips --rounds 200 --rate 2/s
  quorate measure --node http://127.0.0.1:9650 --chain BLOCKCHAIN_ID --html l1.html

--save writes the report to a file. --compare prints how the times of two such files differ,
and the nodes that changed most.

  quorate measure --node http://127.0.0.1:9650 --save before.json
  quorate measure --node http://127.0.0.1:9650 --save after.json
  quorate measure --compare before.json after.json

A time is that from handing the request to the connections until the answer has arrived. It
does not include the verification of signatures. Ctrl-C ends the run early and prints what was
measured.

Exit codes: 0 measured, 1 failed, 2 mistake in the command line, 3 no round reached 67% of
the weight.`,
		Args: cobra.ArbitraryArgs,
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			switch {
			case f.compare:
				return f.runCompare(cmd, args)
			case len(args) > 0:
				return usage(fmt.Errorf("unexpected argument %q", args[0]), "Only --compare has arguments, two files.")
			}
			return f.run(cmd)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.node, "node", "", "`URL` of a node that reports the validators and the chain's blocks")
	flags.StringVar(&f.chain, "chain", "C", "EVM chain whose blocks are signed: C, or its blockchain `ID` (with --rpc: as the API reports)")
	flags.StringVar(&f.rpc, "rpc", "", "`URL` of the chain's Ethereum API, if --node does not serve it")
	flags.StringVar(&f.subnet, "subnet", "", "`ID` of the subnet whose validators are asked (default: that of the chain)")
	flags.IntVar(&f.Rounds, "rounds", 50, "`number` of rounds, at most 10000")
	flags.StringVar(&f.rate, "rate", "1/s", "most `rounds` in a time, for example 2/s or 30/m; at most 20/s")
	flags.DurationVar(&f.Timeout, "timeout", 5*time.Second, "`time` that validators have to answer, at most 10s")
	flags.DurationVar(&f.Settle, "settle", time.Second, "`time` that a block must be known before validators are asked to sign it")
	flags.Uint64Var(&f.Behind, "behind", 0, "`number` of blocks that the signed block is below the newest one known for that time")
	flags.DurationVar(&f.Connect, "connect", 15*time.Second, "`time` to wait for connections to all validators")
	flags.BoolVar(&f.allowPrivateIPs, "allow-private-ips", false, "connect to validators at private addresses")
	flags.StringVar(&f.dataDir, "data-dir", "", "`folder` of the identity to use, for example ~/.quorate/fuji (default: a new identity, not saved)")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON instead of a table")
	flags.StringVar(&f.csv, "csv", "", "`file` to write a row for each node to")
	flags.StringVar(&f.html, "html", "", "`file` to write a page with plots to")
	flags.StringVar(&f.save, "save", "", "`file` to write the report to, for --compare; the same as --json prints")
	flags.BoolVar(&f.compare, "compare", false, "compare the reports in two files instead of measuring")
	flags.IntVar(&f.limit, "limit", 40, "`number` of nodes in the table, the heaviest ones or those that changed most; 0 for all")
	flags.StringVar(&f.logLevel, "log-level", "error", "lowest `level` to log: debug, info, warn or error")
	return cmd
}

// parseRate returns the interval of a rate like 2/s.
func parseRate(text string) (time.Duration, error) {
	number, unit, _ := strings.Cut(text, "/")
	per, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n >= 1e-3 && n <= 1e6) {
		return 0, fmt.Errorf("--rate: %q is not a rate", text)
	}
	return time.Duration(float64(per) / n), nil
}

// check checks the flags.
func (f *measureFlags) check() error {
	const help = "quorate measure --help explains the flags."
	if f.node == "" {
		return usage(errors.New("--node is needed"), "For example: quorate measure --node http://127.0.0.1:9650")
	}
	var err error
	if f.Interval, err = parseRate(f.rate); err != nil {
		return usage(err, "For example 1/s, 2.5/s or 30/m.")
	}
	if err := f.Check(); err != nil {
		return usage(err, help)
	}
	if f.limit < 0 {
		return usage(fmt.Errorf("--limit: %d is negative", f.limit), help)
	}
	if f.chain == "c-chain" { // as other commands call it
		f.chain = "C"
	}
	if _, err := ids.FromString(f.chain); f.chain != "C" && err != nil {
		return usage(fmt.Errorf("--chain: %q is neither C nor a blockchain ID", f.chain), "Give the ID in base58, as explorers show it.")
	}
	if _, err := ids.FromString(f.subnet); f.subnet != "" && err != nil {
		return usage(fmt.Errorf("--subnet: %q is not a subnet ID", f.subnet), "Give the ID in base58, as explorers show it.")
	}
	for _, file := range []string{f.csv, f.html, f.save} {
		if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
			return usage(fmt.Errorf("%s: there is no folder %s", file, filepath.Dir(file)), "Create it, or name another file.")
		}
	}
	return nil
}

// setupTimeout bounds joining the network and finding the chain and the subnet.
const setupTimeout = 30 * time.Second

func (f *measureFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(cmd.Context(), setupTimeout)
	defer cancel()
	n, stop, err := f.open(setup, cmd, nil)
	if err != nil {
		return err
	}
	defer stop()
	progress, end := showProgress(cmd)
	o := measure.Options{Settings: f.Settings, Transport: n.Peers, Sets: n.Resolver, NetworkID: n.ID, Progress: progress}
	closeChain, err := f.find(setup, cmd, n, &o)
	if err != nil {
		return err
	}
	defer closeChain()
	report, err := measure.Run(cmd.Context(), o)
	end()
	if report == nil && cmd.Context().Err() != nil {
		return &exitError{code: exitFailed, err: errors.New("interrupted before the first round was complete")}
	}
	if report == nil {
		return &exitError{code: exitFailed, err: fmt.Errorf("measuring: %w", err), hint: "Check that the node is healthy and synchronised; --log-level info shows what happens."}
	}
	report.Version = version
	if err := f.print(cmd, report); err != nil {
		return err
	}
	return conclude(report, err)
}

// find sets the chain and the subnet of o. The caller calls closeChain at the end.
func (f *measureFlags) find(ctx context.Context, cmd *cobra.Command, n *network.Network, o *measure.Options) (closeChain func(), err error) {
	closeChain = func() {}
	chain := n.Node.EVM("/ext/bc/" + f.chain + "/rpc")
	if f.rpc != "" {
		client, err := node.New(node.Options{Endpoints: []string{f.rpc}, Log: logs.NewLogger(f.logLevel, cmd.ErrOrStderr())})
		if err != nil {
			return nil, usage(fmt.Errorf("--rpc: %w", err), "For example https://api.avax-test.network/ext/bc/C/rpc")
		}
		chain, closeChain = client.EVM(""), client.Close
	}
	o.Chain = chain
	switch {
	case f.rpc != "" && !cmd.Flags().Changed("chain"):
		if o.BlockchainID, err = chain.BlockchainID(ctx); err == nil && o.BlockchainID == ids.Empty {
			err = errors.New("the API of --rpc does not report its blockchain ID; give it with --chain")
		}
	case f.chain == "C":
		o.BlockchainID, err = n.Node.BlockchainID(ctx, "C")
	default:
		o.BlockchainID, err = ids.FromString(f.chain)
	}
	if err == nil {
		_, err = chain.Tip(ctx)
	}
	if err == nil {
		o.SourceSubnetID, err = n.Resolver.SubnetOf(ctx, o.BlockchainID)
	}
	if o.SubnetID = o.SourceSubnetID; err == nil && f.subnet != "" {
		o.SubnetID, err = ids.FromString(f.subnet)
	}
	if err != nil {
		closeChain()
		return nil, &exitError{code: exitFailed, err: fmt.Errorf("finding the chain and its subnet: %w", err),
			hint: "If the node does not serve this chain, name the chain's Ethereum API with --rpc."}
	}
	return closeChain, nil
}

// showProgress returns a function that shows the progress on a terminal, or nil without one,
// and a function that removes it.
func showProgress(cmd *cobra.Command) (show func(measure.Progress), end func()) {
	terminal, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !isatty.IsTerminal(terminal.Fd()) {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	end = func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
	return func(p measure.Progress) {
		if bar == nil {
			bar = progressbar.NewOptions(p.Rounds, progressbar.OptionSetWriter(terminal), progressbar.OptionShowCount(),
				progressbar.OptionSetWidth(20), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		text := fmt.Sprintf("%d of %d nodes connected", p.Connected, p.Nodes)
		if p.Last != nil {
			result := fmt.Sprintf("%d%% not reached", aggregator.DefaultQuorumPercentage)
			if ms, ok := p.Last.Time(aggregator.DefaultQuorumPercentage); ok {
				result = fmt.Sprintf("%d%% after %.0f ms", aggregator.DefaultQuorumPercentage, ms)
			}
			text += ", " + result
		}
		bar.Describe(text)
		_ = bar.Set(p.Done) // fails only beyond the total
	}, end
}

// print prints the report and writes it to the files that the flags name.
func (f *measureFlags) print(cmd *cobra.Command, report *measure.Report) error {
	var failed []error
	if f.asJSON {
		failed = append(failed, report.WriteJSON(cmd.OutOrStdout()))
	} else {
		failed = append(failed, report.WriteTable(cmd.OutOrStdout(), f.limit))
	}
	for _, output := range []struct {
		file  string
		write func(io.Writer) error
	}{{f.save, report.WriteJSON}, {f.csv, report.WriteCSV}, {f.html, report.WriteHTML}} {
		if output.file != "" {
			failed = append(failed, writeReport(output.file, output.write))
		}
	}
	return errors.Join(failed...)
}

func writeReport(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = write(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// runCompare prints the differences between two reports.
func (f *measureFlags) runCompare(cmd *cobra.Command, files []string) error {
	if len(files) != 2 {
		return usage(fmt.Errorf("--compare takes two files, not %d", len(files)), "For example: quorate measure --compare before.json after.json")
	}
	var reports [2]*measure.Report
	for i, file := range files {
		var err error
		if reports[i], err = measure.Load(file); err != nil {
			return usage(fmt.Errorf("reading a report: %w", err), "Write reports with quorate measure --save.")
		}
	}
	c, err := measure.Compare(reports[0], reports[1])
	if err != nil {
		return usage(err, "Compare runs over one chain and one subnet.")
	}
	if f.asJSON {
		return c.WriteJSON(cmd.OutOrStdout())
	}
	return c.WriteTable(cmd.OutOrStdout(), f.limit)
}

// conclude returns the error that ends the command. failed is why the run ended early.
func conclude(report *measure.Report, failed error) error {
	if failed != nil {
		return &exitError{code: exitFailed, err: fmt.Errorf("measuring ended early: %w", failed), hint: "The report has the rounds until then. Check that the node is healthy."}
	}
	if q := report.Subnet.Quorum(aggregator.DefaultQuorumPercentage); q == nil || q.Reached == 0 {
		return &exitError{code: exitNegative, err: fmt.Errorf("no round reached %d%% of the weight", aggregator.DefaultQuorumPercentage),
			hint: "The report has the reason for each node. Private addresses need --allow-private-ips; a longer --connect reaches more validators."}
	}
	return nil
}
