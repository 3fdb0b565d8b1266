package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestRunbooks compares the alerts with the sections of docs/runbooks.md that their annotations lead to.
func TestRunbooks(t *testing.T) {
	content, err := os.ReadFile(root + "/deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(content, &rules))
	page, err := os.ReadFile(root + "/docs/runbooks.md")
	require.NoError(t, err)
	sections := make(map[string]string)
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	alerts := make(map[string]bool)
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts[rule.Alert] = true
			require.Equal(t, "docs/runbooks.md#"+strings.ToLower(rule.Alert), rule.Annotations["runbook"], rule.Alert)
			require.Contains(t, sections, rule.Alert, "the alert has no section")
		}
	}
	for name, text := range sections {
		require.True(t, alerts[name], "there is no alert for the section %s", name)
		parts := regexp.MustCompile(`(?m)^- \*\*(\w[\w ]*)\*\*: `).FindAllStringSubmatch(text, -1)
		require.Equal(t, []string{"Means", "Look at", "Do"}, []string{parts[0][1], parts[1][1], parts[2][1]}, name)
	}
	require.Greater(t, len(alerts), 20)
}
