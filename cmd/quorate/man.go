package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man",
		Short: "Write manual pages",
		Long: `Write a manual page for each command into a folder.

  quorate man --dir /usr/local/share/man/man1`,
		Args: noArgs,
		RunE: wrap(func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("creating the folder for manual pages: %w", err)
			}
			cmd.Root().DisableAutoGenTag = true
			date := time.Unix(0, 0).UTC() // a fixed date, so that the same program writes the same pages
			if err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "QUORATE", Section: "1", Source: "quorate " + version, Date: &date}, dir); err != nil {
				return fmt.Errorf("writing the manual: %w", err)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "man1", "`folder` to write into")
	return cmd
}
