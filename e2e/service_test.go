package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

// service is the program under test, run as a user would.
type service struct {
	t                testing.TB
	program, dataDir string
	node             string
	url, private     string
	process          *exec.Cmd
	exited           chan struct{}
}

// buildService builds the program from the module above.
func buildService(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "quorate")
	build := exec.Command("go", "build", "-o", program, "./cmd/quorate")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "building quorate: %s", out)
	return program
}

func startService(t testing.TB, program, node string) *service {
	t.Helper()
	s := &service{t: t, program: program, dataDir: t.TempDir(), node: node}
	t.Cleanup(func() {
		if s.process != nil {
			s.stop()
		}
		if t.Failed() {
			content, _ := os.ReadFile(filepath.Join(s.dataDir, "output.log"))
			t.Logf("the service printed:\n%s", content[max(len(content)-6000, 0):])
		}
	})
	s.start()
	return s
}

func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start runs the service and waits until it is ready.
func (s *service) start() {
	s.t.Helper()
	listen, private := freeAddress(s.t), freeAddress(s.t)
	s.url, s.private = "http://"+listen, "http://"+private
	log, err := os.OpenFile(filepath.Join(s.dataDir, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	defer func() { _ = log.Close() }()
	s.process = exec.Command(s.program, "serve", "--listen", listen, "--private-listen", private,
		"--data-dir", s.dataDir, "--network", "local="+s.node, "--allow-private-ips", "--log-level", "info", "--request-timeout", "8s")
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.process.Start())
	s.exited = make(chan struct{})
	process, exited := s.process, s.exited
	go func() {
		_ = process.Wait()
		close(exited)
	}()
	require.Eventually(s.t, func() bool {
		response, err := http.Get(s.private + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 30*time.Second, 100*time.Millisecond, "the service does not become ready")
}

// stop ends the service in order.
func (s *service) stop() {
	s.t.Helper()
	require.NoError(s.t, s.process.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.exited:
		require.Zero(s.t, s.process.ProcessState.ExitCode(), "exit code")
	case <-time.After(15 * time.Second):
		_ = s.process.Process.Kill()
		<-s.exited
		s.t.Error("the service did not stop in time")
	}
	s.process = nil
}

// outcomes is the account in a failure.
type outcomes struct {
	TargetWeight       uint64 `json:"targetWeight,string"`
	TotalWeight        uint64 `json:"totalWeight,string"`
	SignedWeight       uint64 `json:"signedWeight,string"`
	SilentWeight       uint64 `json:"silentWeight,string"`
	DisconnectedWeight uint64 `json:"disconnectedWeight,string"`
	RefusedWeight      uint64 `json:"refusedWeight,string"`
	Refusals           []struct {
		Code    int32  `json:"code"`
		Message string `json:"message"`
		Count   int    `json:"count"`
	} `json:"refusals"`
	SilentNodes []string `json:"silentNodes"`
}

type reply struct {
	SignedMessage string    `json:"signedMessage"`
	Hyphenated    string    `json:"signed-message"`
	Message       string    `json:"message"`
	Code          string    `json:"code"`
	Error         string    `json:"error"`
	Outcomes      *outcomes `json:"outcomes"`
}

func (s *service) post(ctx context.Context, path string, body map[string]any) (int, reply) {
	s.t.Helper()
	content, err := json.Marshal(body)
	require.NoError(s.t, err)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(content))
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	var r reply
	require.NoError(s.t, json.Unmarshal(answer, &r), "%s", answer)
	return response.StatusCode, r
}

const signPath = "/v1/signatureAggregator/local/aggregateSignatures"

// sign asks for a signed message and fails the test unless it gets one.
func (s *service) sign(ctx context.Context, m *warp.UnsignedMessage, quorum int) *warp.Message {
	s.t.Helper()
	status, r := s.post(ctx, signPath, map[string]any{"message": "0x" + hex.EncodeToString(m.Bytes()), "quorumPercentage": quorum})
	require.Equal(s.t, http.StatusOK, status, "%s %+v", r.Message, r.Outcomes)
	return parseSigned(s.t, r.SignedMessage)
}

func parseSigned(t testing.TB, text string) *warp.Message {
	t.Helper()
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	signed, err := warp.ParseMessage(raw)
	require.NoError(t, err)
	return signed
}
