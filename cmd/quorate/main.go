// Command quorate signs Warp messages: as a service, as a demonstration on a simulated
// network, or one message at a time.
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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quorate/internal/config"
	"quorate/internal/service/hint"
	"quorate/internal/suggest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
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

// exitError ends the program with an exit code and says what failed and what to do.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usage returns the error for a mistake in flags, environment or configuration.
func usage(err error, hint string) error {
	return &exitError{code: exitUsage, err: err, hint: hint}
}

// positive returns an error of usage for a time that is not above 0.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return usage(fmt.Errorf("--%s: %s is not above 0", flag, d), "")
	}
	return nil
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRoot(out)
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
		// All other errors come from parsing the command line.
		hint := "Run quorate --help, or --help after a command, to see its flags."
		if meant := meant(root, args, err); meant != "" {
			hint = meant + " " + hint
		}
		known = &exitError{code: exitUsage, err: err, hint: hint}
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		known = &exitError{code: exitFailed, err: errors.New("interrupted")}
	}
	_, _ = fmt.Fprintf(errOut, "quorate: %v\n", known)
	if known.hint != "" {
		_, _ = fmt.Fprintln(errOut, known.hint)
	}
	return known.code
}

// meant returns a question for the command or flag that was probably meant, or an empty string.
func meant(root *cobra.Command, args []string, err error) string {
	if len(args) > 0 && args[0] == "help" {
		args = args[1:] // the command that it was to explain
	}
	cmd, rest, findErr := root.Find(args)
	if findErr != nil {
		cmd, rest = root, args
	}
	var wrong string
	var known []string
	switch text := err.Error(); {
	case strings.HasPrefix(text, "unknown command") && len(rest) > 0:
		wrong = rest[0]
		for _, c := range cmd.Commands() {
			known = append(known, c.Name())
		}
	case strings.HasPrefix(text, "unknown flag: --"):
		wrong = strings.TrimPrefix(text, "unknown flag: --")
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	}
	name := suggest.Nearest(wrong, known)
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(err.Error(), "unknown flag"):
		name = "--" + name
	}
	return fmt.Sprintf("Did you mean %s?", name)
}

// makeGroup makes an unknown subcommand of cmd a mistake rather than a call for help.
func makeGroup(cmd *cobra.Command) {
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// newHelp returns the command that shows the help of another one.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		Long: `Show the help of a command, as --help after it does.

  quorate help keys add`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), toComplete) {
						names = append(names, sub.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = fmt.Errorf("unknown command %q for %q", rest[0], of.CommandPath())
			}
			if err != nil {
				return err
			}
			return of.Help()
		},
	}
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasSubCommands():
		return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	}
	return fmt.Errorf("unexpected argument %q: %q takes none", args[0], cmd.CommandPath())
}

// oneArg requires one argument, which the help calls name.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("%s is missing: %s %s", name, cmd.CommandPath(), name)
		case 1:
			return nil
		}
		return fmt.Errorf("unexpected argument %q: %q takes one, %s", args[1], cmd.CommandPath(), name)
	}
}

// addSettings adds the flags of the configuration to cmd. Its help shows them in groups.
func addSettings(cmd *cobra.Command) {
	config.AddFlags(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if values := f.Annotations[config.ValuesAnnotation]; values != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
		}
	})
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var titles []string
		groups := make(map[string]*pflag.FlagSet)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			title := "Flags"
			if named := f.Annotations[config.GroupAnnotation]; named != nil {
				title = named[0]
			}
			if groups[title] == nil {
				titles = append(titles, title)
				groups[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
				groups[title].SortFlags = false
			}
			groups[title].AddFlag(f)
		})
		text := fmt.Sprintf("Usage:\n  %s\n", cmd.UseLine())
		for _, title := range titles {
			text += fmt.Sprintf("\n%s:\n%s", title, groups[title].FlagUsagesWrapped(100))
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), text)
		return err
	})
}

// wrap turns every error of f that has no exit code into a failure.
func wrap(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		var known *exitError
		if err == nil || errors.As(err, &known) {
			return err
		}
		if hinted, ok := errors.AsType[*hint.Error](err); ok {
			code := exitFailed
			if hinted.Wrong {
				code = exitUsage
			}
			return &exitError{code: code, err: hinted.Err, hint: hinted.Hint}
		}
		return &exitError{code: exitFailed, err: err}
	}
}

// newRoot returns the program, which writes results to out.
func newRoot(out io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:     "quorate",
		Version: version,
		Short:   "Collect signatures of Avalanche validators on Warp messages",
		Long: `quorate asks the validators of an Avalanche network to sign a Warp message, verifies
their signatures and returns the signed message that a chain accepts.

Try it without any set-up:

  quorate dev

Serve fuji, Avalanche's test network, through a node, or a network on this machine:

  quorate serve --network fuji=http://127.0.0.1:9650
  quorate serve --network local=http://127.0.0.1:9650 --allow-private-ips

Sign and verify one message:

  quorate sign --node http://127.0.0.1:9650 MESSAGE
  quorate verify --node http://127.0.0.1:9650 SIGNED_MESSAGE

Exit codes: 0 done, 1 failed, 2 mistake in the command line or configuration,
3 no quorum (sign, measure), not known yet (sign), not valid or not deliverable (verify).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		// run suggests a command in its hint.
		DisableSuggestions: true,
	}
	root.SetVersionTemplate(describeVersion())
	root.AddCommand(newServe(), newDev(), newSign(), newVerify(), newMeasure(), newIndex(), newStore(), newCheckpoint(), newKeys(), newConfig(), newDoctor(), newHealth(), newMan(), newVersion())
	root.SetOut(out) // which the completion command takes now
	root.InitDefaultCompletionCmd()
	root.SetHelpCommand(newHelp())
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() {
			makeGroup(cmd)
		}
	}
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
