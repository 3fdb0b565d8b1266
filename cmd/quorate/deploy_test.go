package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// accepts requires that the program accepts a command line, without running it.
func accepts(t *testing.T, args []string) {
	t.Helper()
	cmd, rest, err := newRoot(io.Discard).Find(args)
	require.NoError(t, err, args)
	require.NoError(t, cmd.ParseFlags(rest), args)
	require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), args)
	require.NotNil(t, cmd.RunE, args)
}

// instruction is one of a Dockerfile.
type instruction struct{ name, rest string }

// stages are those of the Dockerfile.
func stages(t *testing.T) [][]instruction {
	t.Helper()
	content, err := os.ReadFile(root + "/deploy/Dockerfile")
	require.NoError(t, err)
	var all [][]instruction
	var begun string
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if more, ok := strings.CutSuffix(line, `\`); ok {
			begun += more
			continue
		}
		name, rest, ok := strings.Cut(begun+line, " ")
		begun = ""
		require.True(t, ok, line)
		if name == "FROM" {
			all = append(all, nil)
		}
		require.NotEmpty(t, all, "an instruction before FROM")
		all[len(all)-1] = append(all[len(all)-1], instruction{name, strings.TrimSpace(rest)})
	}
	require.NoError(t, lines.Err())
	return all
}

// image is what the last stage says of the image.
type image struct {
	user                string
	environ             []string
	entrypoint, command []string
	health              []string // the command of the health check
}

func (s image) of(t *testing.T, stage []instruction) image {
	t.Helper()
	for _, i := range stage {
		switch i.name {
		case "USER":
			s.user = i.rest
		case "ENV":
			s.environ = append(s.environ, strings.Fields(i.rest)...)
		case "ENTRYPOINT":
			require.NoError(t, yaml.Unmarshal([]byte(i.rest), &s.entrypoint), "a shell, which there is none of")
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(i.rest, " CMD ")
			require.NoError(t, yaml.Unmarshal([]byte(command), &s.health), "a shell, which there is none of")
		case "CMD":
			require.NoError(t, yaml.Unmarshal([]byte(i.rest), &s.command), "a shell, which there is none of")
		}
	}
	return s
}

// ignored are the patterns of what is no part of a build.
func ignored(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(root + "/.dockerignore")
	require.NoError(t, err)
	return strings.Fields(string(content))
}

// inContext requires that a file is there for a build.
func inContext(t *testing.T, name string) {
	t.Helper()
	_, err := os.Stat(filepath.Join(root, name))
	require.NoError(t, err, "COPY %s", name)
	for _, pattern := range ignored(t) {
		for part := path.Clean(name); part != "." && part != "/"; part = path.Dir(part) {
			matches, err := path.Match(strings.Trim(pattern, "/"), part)
			require.NoError(t, err)
			require.False(t, matches, "%s is ignored by %s", name, pattern)
		}
	}
}

// The image is built from existing files, with the Go version of go.mod, for a user other than root.
// The program accepts its command line and environment. TestReleases builds the image.
func TestDockerfile(t *testing.T) {
	all := stages(t)
	require.Len(t, all, 2)
	modules, err := os.ReadFile(root + "/go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(modules)
	require.NotNil(t, version)
	require.Regexp(t, `^golang:`+regexp.QuoteMeta(string(version[1]))+`[.-]`, all[0][0].rest)
	require.Regexp(t, `^[a-z0-9./-]+:[a-z0-9.-]+ AS build$`, all[0][0].rest, "a base without a tag")
	require.Equal(t, instruction{"FROM", "scratch"}, all[1][0])
	copied := make(map[string]bool) // into the image
	for n, stage := range all {
		for _, i := range stage {
			if i.name != "COPY" {
				continue
			}
			words := strings.Fields(i.rest)
			var from string
			for strings.HasPrefix(words[0], "--") {
				if name, ok := strings.CutPrefix(words[0], "--from="); ok {
					from = name
				}
				words = words[1:]
			}
			for _, source := range words[:len(words)-1] {
				if from == "" {
					inContext(t, source)
				}
			}
			if n == len(all)-1 {
				copied[words[len(words)-1]] = true
			}
		}
	}
	// Files of the repository that the build reads, besides Go files.
	for _, name := range []string{"go.mod", "go.sum", "cmd/quorate/main.go", "internal/config/config.example.yaml", "handlers/docs/openapi.yaml", "handlers/console/assets", "LICENSE", "THIRD_PARTY_NOTICES", "deploy/build.sh", "deploy/rootfs.sh"} {
		inContext(t, name)
	}

	made := image{}.of(t, all[1])
	require.NotContains(t, []string{"", "root", "0"}, made.user)
	require.Equal(t, []string{"/usr/bin/quorate"}, made.entrypoint)
	require.True(t, copied["/"], "what deploy/rootfs.sh made is not copied")
	accepts(t, made.command)
	require.Equal(t, made.entrypoint[0], made.health[0])
	accepts(t, made.health[1:])
	c, err := loadWith(t, "networks: {fuji: {nodes: [http://a]}}", made.environ)
	require.NoError(t, err)
	require.True(t, copied[c.DataDir], "%s is not there", c.DataDir)
	require.Contains(t, all[1], instruction{"VOLUME", c.DataDir})
	_, port, err := net.SplitHostPort(c.Listen)
	require.NoError(t, err)
	require.Contains(t, all[1], instruction{"EXPOSE", port})
}

// composition is what the compose file may have, which is less than the format allows.
type composition struct {
	Name     string
	Services map[string]struct {
		Image string
		Build struct {
			Context, Dockerfile string
		}
		Command         []string
		Environment     map[string]string
		ExtraHosts      []string `yaml:"extra_hosts"`
		Ports, Expose   []string
		Volumes         []string
		StopGracePeriod time.Duration `yaml:"stop_grace_period"`
		Restart         string
		ReadOnly        bool `yaml:"read_only"`
		Tmpfs           []string
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
	}
	Volumes map[string]struct{}
}

// The compose file mounts existing files, runs the service as the image does, and connects Prometheus
// and Grafana to it.
func TestComposition(t *testing.T) {
	content, err := os.ReadFile(root + "/deploy/compose.yaml")
	require.NoError(t, err)
	var c composition
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	require.NoError(t, decoder.Decode(&c))
	mounted := make(map[string]string) // here, by where it is there
	for name, service := range c.Services {
		require.NotEqual(t, service.Image == "", service.Build.Context == "", name)
		if service.Image != "" {
			require.Regexp(t, `:v?\d+\.\d+\.\d+$`, service.Image, "not pinned")
		}
		for _, volume := range service.Volumes {
			from, to, ok := strings.Cut(volume, ":")
			require.True(t, ok, volume)
			if !strings.HasPrefix(from, ".") {
				require.Contains(t, c.Volumes, from)
				continue
			}
			here, readOnly := strings.CutSuffix(to, ":ro")
			require.True(t, readOnly, volume)
			mounted[name+here] = filepath.Join(root, "deploy", from)
			_, err := os.Stat(mounted[name+here])
			require.NoError(t, err)
		}
		for _, port := range service.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s of %s is open to all", port, name)
		}
	}
	service := c.Services["quorate"]
	_, err = os.Stat(filepath.Join(root, "deploy", service.Build.Context, service.Build.Dockerfile))
	require.NoError(t, err)
	accepts(t, service.Command)
	environ := image{}.of(t, stages(t)[1]).environ
	insert := regexp.MustCompile(`\$\{[A-Z_]+:-(.*)\}`)
	for name, value := range service.Environment {
		environ = append(environ, name+"="+insert.ReplaceAllString(value, "$1"))
	}
	loaded, err := loadWith(t, "", environ)
	require.NoError(t, err)
	require.Contains(t, loaded.Networks, "fuji")
	require.Greater(t, service.StopGracePeriod, longestStop(t))
	require.True(t, slices.ContainsFunc(service.Volumes, func(v string) bool { return strings.HasSuffix(v, ":"+loaded.DataDir) }), "the data folder does not outlast the container")
	_, port, err := net.SplitHostPort(loaded.Listen)
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:" + port + ":" + port}, service.Ports)

	// Prometheus.
	_, port, err = net.SplitHostPort(loaded.PrivateListen)
	require.NoError(t, err)
	require.Equal(t, []string{port}, service.Expose)
	given := strings.TrimPrefix(c.Services["prometheus"].Command[0], "--config.file=")
	content, err = os.ReadFile(filepath.Join(mounted["prometheus"+path.Dir(given)], path.Base(given)))
	require.NoError(t, err)
	require.Contains(t, string(content), `["quorate:`+port+`"]`)
	// Grafana.
	require.Equal(t, "true", c.Services["grafana"].Environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"], "it would have a password that everyone knows")
	var provider struct {
		Providers []struct{ Options struct{ Path string } }
	}
	providers, err := filepath.Glob(filepath.Join(mounted["grafana/etc/grafana/provisioning"], "dashboards", "*.yaml"))
	require.NoError(t, err)
	require.Len(t, providers, 1)
	content, err = os.ReadFile(providers[0])
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(content, &provider))
	_, err = os.Stat(filepath.Join(mounted["grafana"+provider.Providers[0].Options.Path], "quorate.json"))
	require.NoError(t, err)
}

// longestStop returns how long the service takes to stop at most, from the limits of its parts, which end one after the
// other. The store's limit includes that of the archive.
func longestStop(t *testing.T) (sum time.Duration) {
	t.Helper()
	const lease = 3 * time.Second // the timeout of package lease
	for _, limit := range []struct{ file, name string }{
		{"handlers/serve.go", "gracePeriod"}, {"handlers/serve.go", "replyPeriod"},
		{"internal/service/tracing/tracing.go", "closeTimeout"}, {"internal/service/open.go", "closing"},
	} {
		content, err := os.ReadFile(filepath.Join(root, limit.file))
		require.NoError(t, err)
		found := regexp.MustCompile(`(?m)\b` + limit.name + ` += (\d+) \* time\.Second$`).FindSubmatch(content)
		require.NotNil(t, found, "%s in %s", limit.name, limit.file)
		d, err := time.ParseDuration(string(found[1]) + "s")
		require.NoError(t, err)
		sum += d
	}
	return sum + 2*lease // of webhooks, then of networks
}

// The chart gives the service as much time to stop as it takes at most.
func TestChartWaitsForTheStop(t *testing.T) {
	content, err := os.ReadFile(root + "/deploy/helm/quorate/templates/statefulset.yaml")
	require.NoError(t, err)
	found := regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)`).FindSubmatch(content)
	require.NotNil(t, found)
	d, err := time.ParseDuration(string(found[1]) + "s")
	require.NoError(t, err)
	require.Greater(t, d, longestStop(t))
}

// The systemd unit runs existing commands with existing flags.
func TestUnit(t *testing.T) {
	content, err := os.ReadFile(root + "/deploy/quorate.service")
	require.NoError(t, err)
	ran, reloads, environ := 0, false, []string(nil)
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ExecStart", "ExecStartPre", "ExecReload":
			if value == "/bin/kill -HUP $MAINPID" {
				reloads = true
				continue
			}
			words := strings.Fields(value)
			require.Equal(t, "/usr/bin/quorate", words[0])
			accepts(t, words[1:])
			ran++
		case "Environment":
			environ = append(environ, value)
		case "Type":
			require.Equal(t, "notify", value, "serve notifies the manager when it accepts requests")
		case "EnvironmentFile":
			require.True(t, strings.HasPrefix(value, "-"), "the unit must start without the file")
		case "StateDirectory":
			require.Contains(t, environ, "QUORATE_DATA_DIR=/var/lib/"+value)
		case "TimeoutStopSec":
			d, err := time.ParseDuration(value)
			require.NoError(t, err)
			require.Greater(t, d, longestStop(t))
		}
	}
	require.Equal(t, 3, ran)
	require.True(t, reloads)
}
