package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/e2e/localnet"
)

// service is the program under test, run as a user would.
type service struct {
	t                testing.TB
	networkID        uint32
	program, dataDir string
	node             string
	flags            []string
	url, private     string
	process          *exec.Cmd
	exited           chan struct{}
}

// programs is the folder of the programs that tests build, which TestMain removes.
var programs string

// buildService builds the program from the module above once, unless E2E_QUORATE says which one to test.
func buildService(t testing.TB) string {
	t.Helper()
	program, err := builtService()
	require.NoError(t, err)
	return program
}

var builtService = sync.OnceValues(func() (string, error) {
	if program := os.Getenv("E2E_QUORATE"); program != "" {
		return program, nil
	}
	program := filepath.Join(programs, "quorate")
	build := exec.Command("go", "build", "-o", program, "./cmd/quorate")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building quorate: %w: %s", err, out)
	}
	return program, nil
})

// testContext returns the context of a test that may take as long as limit. It first builds the programs that tests share,
// so that the limit does not include minutes of compiling. The tests that make test selects, with -short, need no subnet-evm.
func testContext(t testing.TB, limit time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	buildService(t)
	require.NoError(t, localnet.Build(!testing.Short()))
	return context.WithTimeout(t.Context(), limit)
}

func startService(t testing.TB, program, node string, flags ...string) *service {
	t.Helper()
	s := &service{t: t, networkID: localnet.NetworkID, program: program, dataDir: t.TempDir(), node: node, flags: flags}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the service printed:\n%s", s.log())
		}
		if s.process != nil {
			s.stop()
		}
	})
	s.start()
	return s
}

// hrp begins the addresses of the network.
func (s *service) hrp() string { return constants.GetHRP(s.networkID) }

// log is the end of what the service printed.
func (s *service) log() []byte {
	content, _ := os.ReadFile(filepath.Join(s.dataDir, "output.log"))
	return content[max(len(content)-6000, 0):]
}

// start runs the service and waits until it is ready.
func (s *service) start() {
	s.t.Helper()
	ports := localnet.FreePorts(s.t, 2)
	listen, private := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	s.url, s.private = "http://"+listen, "http://"+private
	log, err := os.OpenFile(filepath.Join(s.dataDir, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	defer func() { _ = log.Close() }()
	args := []string{
		"serve", "--listen", listen, "--private-listen", private,
		"--data-dir", s.dataDir, "--network", "local=" + s.node, "--allow-private-ips", "--log-level", "info", "--request-timeout", "8s", "--record", "all",
	}
	s.process = exec.Command(s.program, append(args, s.flags...)...)
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, s.process.Start())
	s.exited = make(chan struct{})
	process, exited := s.process, s.exited
	go func() {
		_ = process.Wait()
		close(exited)
	}()
	timeout := time.After(2 * time.Minute)
	for {
		response, err := http.Get(s.private + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-s.exited:
			s.process = nil
			s.t.Fatalf("the service ended by itself:\n%s", s.log())
		case <-timeout:
			s.t.Fatalf("the service is not ready:\n%s", s.log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the service in order.
func (s *service) stop() {
	s.t.Helper()
	require.NoError(s.t, s.process.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.exited:
		require.Zero(s.t, s.process.ProcessState.ExitCode(), "exit code")
	case <-time.After(time.Minute):
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
	Reasons     []struct {
		Code    string       `json:"code"`
		Weight  uint64       `json:"weight,string"`
		Count   int          `json:"count"`
		NodeIDs []ids.NodeID `json:"nodeIds"`
		Detail  string       `json:"detail"`
		Remedy  string       `json:"remedy"`
	} `json:"reasons"`
}

type reply struct {
	SignedMessage string    `json:"signedMessage"`
	Hyphenated    string    `json:"signed-message"`
	Message       string    `json:"message"`
	Code          string    `json:"code"`
	Error         string    `json:"error"`
	Outcomes      *outcomes `json:"outcomes"`

	// Of a verdict.
	Valid   bool   `json:"valid"`
	Reason  string `json:"reason"`
	Signers []any  `json:"signers"`

	Delivery *deliveryReply `json:"delivery"`
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

const (
	signPath   = "/v1/signatureAggregator/local/aggregateSignatures"
	verifyPath = "/v1/signatureAggregator/local/verifySignedMessage"
)

// metric is the sum of a metric's samples that have all the labels.
func (s *service) metric(name string, labels ...string) (sum float64) {
	s.t.Helper()
	response, err := http.Get(s.private + "/metrics")
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	for line := range strings.Lines(string(content)) {
		sample, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(sample, name+"{") {
			continue
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(sample, l) }) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		require.NoError(s.t, err)
		sum += n
	}
	return sum
}

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
