// Package browsertest drives a real browser over the console of a real service.
package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"quorate/internal/testenv"

	"github.com/stretchr/testify/require"
)

//go:embed package.json package-lock.json browser.mjs faults.mjs pages.mjs docs.mjs
var files embed.FS

var shots = flag.String("shots", "", "`folder` to write screenshots to")

// shotsFolder makes the folder of -shots and returns its path, or nothing without the flag.
func shotsFolder(t *testing.T) string {
	t.Helper()
	if *shots == "" {
		return ""
	}
	folder, err := filepath.Abs(*shots)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o755))
	return folder
}

func TestConsoleInABrowser(t *testing.T) {
	chromium := testenv.Program(t, "chromium", "chromium", "chromium-browser", "google-chrome")
	directory := testenv.Node(t, files)
	url, output := startDev(t)
	base := strings.TrimSuffix(url, "/console/")

	address := regexp.MustCompile(`addresses=(P-\w+)`).FindStringSubmatch(output())
	require.Len(t, address, 2, "quorate dev names no address: %s", output())
	private := regexp.MustCompile(`Health and metrics: (http://\S+)/readyz`).FindStringSubmatch(output())
	require.Len(t, private, 2, "quorate dev names no private address: %s", output())
	input, err := json.Marshal(map[string]string{
		"url": url, "private": private[1], "chromium": chromium, "address": address[1], "shots": shotsFolder(t),
		"validator": first(t, base+"/v1/networks/local/delegators?pageSize=1", "delegators", "nodeId"),
		"subnet":    first(t, base+"/v1/networks/local/subnets?pageSize=1", "subnets", "subnetId"),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "browser.mjs")
	node.Dir, node.Stdin = directory, bytes.NewReader(input)
	var out, errOut bytes.Buffer
	node.Stdout, node.Stderr = &out, &errOut
	require.NoError(t, node.Run(), "%s", &errOut)
	var results []struct {
		Name, Error string
		Seconds     float64
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &results), "%s", &out)
	require.Len(t, results, 24, "every check reports")
	for _, r := range results {
		t.Run(r.Name, func(t *testing.T) {
			if r.Error != "" {
				t.Error(r.Error)
			}
			t.Logf("%.1f s", r.Seconds)
		})
	}
}

// folder holds the service until TestMain removes it.
var folder string

// program builds the service, once for all tests, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(folder, "quorate")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "quorate/cmd/quorate").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the service: %w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "browsertest-"); err != nil {
		log.Fatal(err)
	}
	status := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}

// startDev runs quorate dev until the test ends and returns its console's URL, and
// what it has printed so far.
func startDev(t *testing.T) (url string, output func() string) {
	t.Helper()
	binary, err := program()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	dev := exec.CommandContext(ctx, binary, "dev", "--listen", "127.0.0.1:0", "--private-listen", "127.0.0.1:0", "--latency", "60ms", "--validators", "60", "--faults", "0.2")
	dev.Cancel = func() error { return dev.Process.Signal(os.Interrupt) }
	dev.WaitDelay = 30 * time.Second
	out, err := dev.StdoutPipe()
	require.NoError(t, err)
	var complaints bytes.Buffer
	dev.Stderr = &complaints
	require.NoError(t, dev.Start())
	var mu sync.Mutex
	var printed strings.Builder
	lines := make(chan string)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			mu.Lock()
			_, _ = fmt.Fprintln(&printed, scanner.Text())
			mu.Unlock()
			lines <- scanner.Text()
		}
	})
	t.Cleanup(func() {
		cancel()
		for range lines {
			continue
		}
		reading.Wait()
		_ = dev.Wait() // an interrupt, which it was sent
	})
	address := regexp.MustCompile(`http://\S+/console/`)
	timeout := time.After(3 * time.Minute)
	for {
		select {
		case line, ok := <-lines:
			require.True(t, ok, "quorate dev ends: %s", &complaints)
			if found := address.FindString(line); found != "" {
				url = found
			}
			if strings.Contains(line, "Ctrl-C") {
				require.NotEmpty(t, url, "quorate dev does not print the console's address")
				return url, func() string {
					mu.Lock()
					defer mu.Unlock()
					return printed.String()
				}
			}
		case <-timeout:
			t.Fatal("quorate dev does not get to its end of the introduction")
		}
	}
}

// first is a member of the first item of a list of the Data API's, which the chains
// may still have to be indexed for.
func first(t *testing.T, url, list, member string) (value string) {
	t.Helper()
	require.Eventually(t, func() bool {
		response, err := http.Get(url)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		content, err := io.ReadAll(response.Body)
		var page map[string]json.RawMessage
		var items []map[string]any
		if err != nil || json.Unmarshal(content, &page) != nil || json.Unmarshal(page[list], &items) != nil || len(items) == 0 {
			return false
		}
		value, _ = items[0][member].(string)
		return value != ""
	}, 3*time.Minute, 100*time.Millisecond, "%s has no %s", url, list)
	return value
}
