package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/simnet"
)

// SIGHUP makes a process read its configuration again. Limits, rate classes, API keys and certificates change, other keys
// are named in the log. A configuration with mistakes, or an empty file, changes nothing.
func TestReload(t *testing.T) {
	n := startSimnet(t, simnet.Options{Seed: 90, Validators: 4})
	dir := t.TempDir()
	address := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	manager, err := net.ListenUnixgram("unixgram", address)
	require.NoError(t, err)
	defer func() { _ = manager.Close() }()
	require.NoError(t, manager.SetReadDeadline(time.Now().Add(2*time.Minute)))
	notified := func() string {
		message := make([]byte, 200)
		size, err := manager.Read(message)
		require.NoError(t, err)
		return string(message[:size])
	}
	listen, private := freeAddress(t), freeAddress(t)
	file := filepath.Join(dir, "quorate.yaml")
	configure := func(certificates, rest string) {
		content := fmt.Sprintf("listen: %s\nprivate_listen: %s\ndata_dir: %s\ntls: {cert: %s/cert.pem, key: %s/key.pem}\nnetworks: {fuji: {nodes: [%q], allow_private_ips: true}}\n%s\n",
			listen, private, dir, certificates, certificates, n.NodeURL(), rest)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	var folders [2]string
	for i := range folders {
		folders[i] = t.TempDir()
		writeCertificate(t, folders[i])
	}

	configure(folders[0], "rate_classes: {default: {per_second: 1000, burst: 500}, partner: {per_second: 1000, burst: 100}}")
	child := exec.Command(os.Args[0], "serve", "--config", file)
	child.Env = append(os.Environ(), asProgramEnv+"=1", "NOTIFY_SOCKET="+address.Name)
	log := &lines{}
	child.Stdout, child.Stderr = log, log
	require.NoError(t, child.Start())
	defer func() {
		require.NoError(t, child.Process.Signal(os.Interrupt))
		require.NoError(t, child.Wait(), "%s", log)
	}()
	require.Equal(t, "READY=1", notified(), "%s", log)
	hangUp := func() {
		t.Helper()
		require.NoError(t, child.Process.Signal(syscall.SIGHUP))
		require.Regexp(t, regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9]\d*$`), notified(), "%s", log)
		require.Equal(t, "READY=1", notified(), "%s", log)
	}
	// logged waits for the process's output, which may arrive after its notification.
	logged := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(log.String(), text) }, time.Minute, 10*time.Millisecond, "%s in %s", text, log)
	}
	// post sends a body of a size and returns the response and the certificate of the server.
	post := func(size int, header ...string) (limit, body string, certificate []byte) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its certificate is compared below
		request, err := http.NewRequest(http.MethodPost, "https://"+listen+"/v1/signatureAggregator/fuji/aggregateSignatures", strings.NewReader(`{"message":"`+strings.Repeat("0", size)+`"}`))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.Header.Get("Ratelimit-Limit"), string(content), response.TLS.PeerCertificates[0].Raw
	}
	certificates := make([][]byte, len(folders))
	for i, folder := range folders {
		content, err := os.ReadFile(filepath.Join(folder, "cert.pem"))
		require.NoError(t, err)
		block, _ := pem.Decode(content)
		parsed, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		certificates[i] = parsed.Raw
	}
	require.Eventually(t, func() bool {
		response, _ := ask(t, "GET", "http://"+private+"/readyz", "")
		return response.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond, "%s", log)
	const large = 4 << 10
	limit, body, certificate := post(large)
	require.Equal(t, "500", limit)
	require.NotContains(t, body, "larger than")
	require.Equal(t, certificates[0], certificate)

	code, key, errOut := quorate(t, "", "keys", "add", "someone", "--class", "partner", "--config", file)
	require.Zero(t, code, errOut)
	key = regexp.MustCompile(`qk_\S+`).FindString(key)
	limit, _, _ = post(10, "x-data-api-key", key)
	require.Equal(t, "100", limit, "the key is known without a reload")

	configure(folders[1], "rate_classes: {default: {per_second: 1000, burst: 7}, partner: {per_second: 1000, burst: 77}}\nlimits: {body: 1KiB, header: 16KiB}\nrequest_timeout: 20s")
	hangUp()
	limit, body, certificate = post(large)
	require.Equal(t, "7", limit)
	require.Contains(t, body, "larger than 1024 bytes")
	require.Equal(t, certificates[1], certificate)
	limit, _, _ = post(10, "x-data-api-key", key)
	require.Equal(t, "77", limit)
	logged(`"keys":"limits.header, request_timeout"`)

	configure(folders[0], "rate_classes: {default: {per_second: 1000, burst: 9}}\nlimits: {body: 1}")
	hangUp()
	logged(file + ":7: limits.body: 1 B is not between 1KiB and 64MiB")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	hangUp()
	logged("networks: none is configured")
	require.NoError(t, os.Remove(filepath.Join(folders[0], "key.pem")))
	configure(folders[0], "rate_classes: {default: {per_second: 1000, burst: 9}}")
	hangUp()
	logged(file + ":4: tls: ")
	limit, body, certificate = post(large)
	require.Equal(t, "7", limit)
	require.Contains(t, body, "larger than 1024 bytes")
	require.Equal(t, certificates[1], certificate)
}
