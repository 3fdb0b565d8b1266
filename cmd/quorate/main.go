// Command quorate signs Warp messages: as a service, as a demonstration on a
// synthetic network, or one message at a time.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"quorate/internal/config/suggest"
	"quorate/internal/service/hint"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes; --help explains them.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNegative = 3
)

// exitError ends the program with a code, saying what failed and what to do.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage is a mistake in flags, environment or configuration.
func usage(err error, hint string) error {
	return &exitError{code: exitUsage, err: err, hint: hint}
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var known *exitError
	if !errors.As(err, &known) {
		// What is no exitError comes from the parsing of the command line.
		hint := "Run quorate --help, or --help after a command, to see what it takes."
		if strings.HasPrefix(err.Error(), "unknown command") && len(args) > 0 {
			var names []string
			for _, c := range root.Commands() {
				names = append(names, c.Name())
			}
			hint = strings.TrimPrefix(suggest.Name(args[0], names)+". "+hint, ". ")
			hint = strings.Replace(strings.TrimPrefix(hint, "; "), "did you mean", "Did you mean", 1)
			hint = strings.Replace(hint, "?.", "?", 1)
		}
		known = &exitError{code: exitUsage, err: err, hint: hint}
	}
	_, _ = fmt.Fprintf(errOut, "quorate: %v\n", known)
	if known.hint == "" {
		known.hint = "--help after the command shows what it takes; --log-level info, where there is one, what happens."
	}
	_, _ = fmt.Fprintln(errOut, known.hint)
	return known.code
}

// wrap makes every error of a command that does not say otherwise a failure.
func wrap(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		var known *exitError
		if err == nil || errors.As(err, &known) {
			return err
		}
		if told, ok := errors.AsType[*hint.Error](err); ok {
			code := exitFailed
			if told.Wrong {
				code = exitUsage
			}
			return &exitError{code: code, err: told.Err, hint: told.Hint}
		}
		return &exitError{code: exitFailed, err: err}
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "quorate",
		Short: "Signed Warp messages from Avalanche's validators",
		Long: `quorate asks the validators of an Avalanche network to sign a Warp message,
proves their signatures and returns the signed message that a chain accepts.

See it work, with nothing but this program:

  quorate dev

Serve fuji through a node of yours, or a private network on this machine:

  quorate serve --network fuji=http://127.0.0.1:9650
  quorate serve --network local=http://127.0.0.1:9650 --allow-private-ips

Sign and check one message:

  quorate sign --node http://127.0.0.1:9650 0x0000...
  quorate verify --node http://127.0.0.1:9650 0x0000...

Exit codes: 0 done, 1 failed, 2 mistake in the command line or configuration,
3 no quorum (sign) or not valid (verify).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// Ours name one, in the one line that says what to do.
		DisableSuggestions: true,
	}
	root.AddCommand(newServe(), newDev(), newSign(), newVerify(), newIndex(), newStore(), newKeys(), newConfig(), newMan(), newVersion())
	return root
}

// readMessage reads an argument: hex, @file, or - for standard input.
func readMessage(cmd *cobra.Command, arg string) (string, error) {
	const most = 1 << 20
	var content []byte
	var err error
	switch {
	case arg == "-":
		content, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), most))
	case strings.HasPrefix(arg, "@"):
		content, err = os.ReadFile(arg[1:])
	default:
		return strings.TrimSpace(arg), nil
	}
	if err != nil {
		return "", usage(fmt.Errorf("reading the message: %w", err), "Give it in hex, as @file, or as - to read standard input.")
	}
	return strings.TrimSpace(string(content)), nil
}
