package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"quorate/internal/config"
	"quorate/internal/doctor"
	"quorate/internal/service/logs"
)

func newDoctor() *cobra.Command {
	var asJSON bool
	var connect time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine whether a configuration can work",
		Long: `Examine the configuration that serve would use with the same file, environment and flags:
the machine's limits, the store, what each node offers and how far back, clocks, versions and
upgrades, and how much of the validators' weight can be connected. A service may run at the
same time. The command creates and changes nothing. It connects to validators with a temporary
identity, so it cannot connect to validators that accept only known nodes.

  quorate doctor --network fuji=http://127.0.0.1:9650
  quorate doctor --config quorate.yaml
  quorate doctor --config quorate.yaml --json | jq '.findings[] | select(.status == "failure")'

Exit codes: 0 no failure (warnings may remain), 1 at least one failure, 2 mistake in the
command line or the configuration.`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			s := config.Read(cmd.Flags(), os.Environ())
			s.CheckNetworks()
			s.CheckFiles()
			if len(s.Problems) > 0 {
				return showSurvey(cmd, s)
			}
			return examine(cmd, s.Config, connect, asJSON)
		}),
	}
	addSettings(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.Flags().DurationVar(&connect, "connect", 20*time.Second, "longest `time` to wait for connections to validators")
	return cmd
}

// examine prints the findings on a configuration.
func examine(cmd *cobra.Command, c config.Config, connect time.Duration, asJSON bool) error {
	_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "Asking the nodes and connecting to validators; this takes up to a minute.")
	ctx, cancel := context.WithTimeout(cmd.Context(), connect+3*time.Minute)
	defer cancel()
	findings := doctor.Examine(ctx, doctor.Options{Config: c, Connect: connect, Log: logs.NewLogger("error", io.Discard)})
	if err := cmd.Context().Err(); err != nil { // an interruption; what was under way looks like a failure
		return fmt.Errorf("the examination did not end: %w", err)
	}
	worst := doctor.Worst(findings)
	out := cmd.OutOrStdout()
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{"status": worst, "findings": findings}); err != nil {
			return err
		}
	} else {
		printFindings(out, findings)
	}
	if worst == doctor.Failure {
		return &exitError{code: exitFailed, err: errors.New("the configuration cannot work as it is"), hint: "Correct what is marked with ✗, from the top."}
	}
	return nil
}

// printFindings prints one line for each finding, and what to do about those that are not ok.
func printFindings(out io.Writer, findings []doctor.Finding) {
	marks := map[doctor.Status]string{doctor.OK: "✓", doctor.Warning: "!", doctor.Failure: "✗", doctor.Skipped: "-"}
	area := ""
	for _, f := range findings {
		if f.Area != area {
			area = f.Area
			_, _ = fmt.Fprintf(out, "%s\n", area)
		}
		_, _ = fmt.Fprintf(out, "  %s %-22s %s\n", marks[f.Status], f.Check, f.Detail)
		if f.Remedy != "" {
			_, _ = fmt.Fprintf(out, "    %-22s %s\n", "", f.Remedy)
		}
	}
}
