package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	code, out, _ := quorate(t, "", "--version")
	require.Zero(t, code)
	require.Regexp(t, `^quorate \d+\.\d+\.\d+ \((commit \w+ of \S+( with changes)?|built outside a repository), go1\.\S+\)\npresents itself to peers as avalanchego/\d+\.\d+\.\d+\n$`, out)
	_, same, _ := quorate(t, "", "version")
	require.Equal(t, out, same)

	build := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "9170a46"}, {Key: "vcs.time", Value: "2026-11-23T10:55:11Z"}, {Key: "vcs.modified", Value: "false"}}}
	require.Equal(t, "commit 9170a46 of 2026-11-23T10:55:11Z", sourceOf(build).String())
	build.Settings[2].Value = "true"
	require.True(t, strings.HasSuffix(sourceOf(build).String(), " with changes"))
	require.Equal(t, "built outside a repository", sourceOf(nil).String())
}
