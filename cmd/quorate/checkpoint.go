package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"quorate/internal/peernode/checkpoint"
	"quorate/internal/peernode/pchainvm"
)

func newCheckpoint() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Export and show states of the P-Chain",
		Long: `A checkpoint is a file with the state of the P-Chain after a block. A service that follows
the P-Chain without a node exports it; another one begins with it and starts in seconds.

  quorate checkpoint export mainnet.checkpoint
  quorate checkpoint show mainnet.checkpoint

To begin with it, set networks.NAME.checkpoint to the file and checkpoint_hash to its hash.
The service trusts this state, because no block contains a hash of it. Take the hash from a
source that you trust, better from two: services that executed the same blocks print the same
hash for the same height.`,
	}
	cmd.AddCommand(newCheckpointExport(), newCheckpointShow())
	return cmd
}

func newCheckpointExport() *cobra.Command {
	var server, name string
	var height uint64
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Export the state of the P-Chain from a running service",
		Long: `Export the state of the P-Chain from a running service that follows it without a node, at
the last executed block. The service continues to run.

With --height, the command waits until the P-Chain has that height, so that several
services can export the same state. If the block at that height is a proposal, the
checkpoint is of the next block, which decides the proposal.

  quorate checkpoint export mainnet.checkpoint
  quorate checkpoint export --network mainnet --height 25000000 mainnet.checkpoint

Exit codes: 0 the file is complete, 1 failed, 2 mistake in the command line.`,
		Args: oneArg("FILE"),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			return exportCheckpoint(cmd.Context(), server, name, height, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&server, "server", "http://127.0.0.1:8081", "`URL` of the service's private address")
	flags.StringVar(&name, "network", "", "`name` of the network (default: the only one)")
	flags.Uint64Var(&height, "height", 0, "P-Chain `height` to wait for (default: the present one)")
	return cmd
}

// exportCheckpoint downloads a checkpoint. The file gets its name when it is complete.
func exportCheckpoint(ctx context.Context, server, name string, height uint64, file string, out, errOut io.Writer) (err error) {
	query := url.Values{}
	if name != "" {
		query.Set("network", name)
	}
	if height > 0 {
		query.Set("height", strconv.FormatUint(height, 10))
	}
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	response, err := askServer(ctx, client, http.MethodGet, strings.TrimRight(server, "/")+"/checkpoint?"+query.Encode())
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // what has come
		var refusal struct{ Message string }
		_ = json.Unmarshal(body, &refusal)
		return &exitError{code: exitFailed, err: fmt.Errorf("the server answered with status %d: %s", response.StatusCode, refusal.Message)}
	}
	unfinished := file + ".part"
	// The folder may belong to the service's user, who could link the file to one of this user: create a new one.
	err = os.Remove(unfinished)
	var f *os.File
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // nothing of it is secret, and the service may run as another user
	}
	if err != nil {
		return &exitError{code: exitFailed, err: err, hint: "Name a file in a folder that you may write to."}
	}
	info, err := readCheckpoint(io.TeeReader(response.Body, f), errOut, -1)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(unfinished, file)
	}
	if err != nil {
		return &exitError{code: exitFailed, err: errors.Join(fmt.Errorf("exporting a checkpoint: %w", err), os.Remove(unfinished)), hint: "Repeat the command. The service's log has more."}
	}
	return info.print(out, file)
}

func newCheckpointShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show FILE",
		Short: "Show and verify a checkpoint file",
		Long: `Show the network, height and hash of a checkpoint file. This reads the whole file.

  quorate checkpoint show mainnet.checkpoint

Exit codes: 0 the file is complete, 1 it is not, 2 mistake in the command line.`,
		Args: oneArg("FILE"),
		RunE: wrap(func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return &exitError{code: exitFailed, err: err, hint: "Name a file that quorate checkpoint export wrote."}
			}
			defer func() { _ = f.Close() }()
			size := int64(-1)
			if stat, err := f.Stat(); err == nil {
				size = stat.Size()
			}
			info, err := readCheckpoint(f, cmd.ErrOrStderr(), size)
			if err != nil {
				return &exitError{code: exitFailed, err: fmt.Errorf("%s: %w", args[0], err), hint: "Export or copy it again."}
			}
			return info.print(cmd.OutOrStdout(), args[0])
		}),
	}
}

// checkpointInfo is what a checkpoint has.
type checkpointInfo struct {
	header checkpoint.Header
	hash   [32]byte
	pairs  uint64
	// size is that of the file, content that of the keys and values.
	size, content uint64
	census        pchainvm.Census
}

// readCheckpoint reads a checkpoint to its end, with a bar on a terminal. size is -1 if it is unknown.
func readCheckpoint(from io.Reader, errOut io.Writer, size int64) (info checkpointInfo, err error) {
	counted := &countingReader{Reader: from}
	if f, ok := errOut.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		counted.bar = progressbar.NewOptions64(size, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription("checkpoint"),
			progressbar.OptionShowBytes(true), progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
		defer func() { _ = counted.bar.Finish() }()
	}
	r, err := checkpoint.NewReader(counted)
	if err != nil {
		return info, err
	}
	defer r.Close()
	info.header = r.Header
	for {
		key, value, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return info, err
		}
		info.pairs++
		info.content += uint64(len(key) + len(value))
		info.census.Count(key)
	}
	info.hash, info.size = r.Hash(), counted.n
	return info, nil
}

type countingReader struct {
	io.Reader
	n   uint64
	bar *progressbar.ProgressBar // nil without a terminal
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n += uint64(n)
	if r.bar != nil {
		_ = r.bar.Add(n)
	}
	return n, err
}

func (i *checkpointInfo) print(out io.Writer, file string) error {
	_, err := fmt.Fprintf(out, `file        %s, %s (%d keys, %s before compression)
network     %d, genesis %x
P-Chain     height %d, block %s, %s
validators  %d of the primary network, %d of other subnets, %d active of L1s
hash        %x
`, file, humanize.IBytes(i.size), i.pairs, humanize.IBytes(i.content), i.header.NetworkID, i.header.Genesis[:],
		i.header.Height, i.header.BlockID, i.header.Time.Format(time.RFC3339), i.census.Validators, i.census.SubnetValidators, i.census.ActiveL1, i.hash[:])
	return err
}
