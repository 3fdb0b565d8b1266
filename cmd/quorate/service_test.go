package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"quorate/internal/simnet"
)

// instance is a running quorate serve.
type instance struct {
	base, private string
	end           context.CancelFunc
	done          chan int
	log           *lines
}

// startService runs serve, which indexes everything unless more says otherwise, until its
// networks, given by name, are ready.
func startService(t *testing.T, dataDir string, networks map[string]*simnet.Network, more ...string) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listen, private := freeAddress(t), freeAddress(t)
	args := []string{"serve", "--listen", listen, "--private-listen", private, "--data-dir", dataDir, "--allow-private-ips", "--log-level", "debug", "--record", "all"}
	args = append(args, more...)
	for name, n := range networks {
		args = append(args, "--network", name+"="+n.NodeURL())
	}
	s := &instance{base: "http://" + listen, private: "http://" + private, end: cancel, done: make(chan int, 1), log: &lines{}}
	go func() { s.done <- run(ctx, args, strings.NewReader(""), &lines{}, s.log) }()
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + private + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 5*time.Minute, 20*time.Millisecond, "%s", s.log)
	return s
}

// stop ends the service as Ctrl-C does.
func (s *instance) stop(t *testing.T) {
	t.Helper()
	s.end()
	select {
	case code := <-s.done:
		require.Zero(t, code, "%s", s.log)
	case <-time.After(5 * time.Minute):
		t.Fatalf("serve does not stop: %s", s.log)
	}
}

// sign has a message signed through the service.
func (s *instance) sign(t *testing.T, network string, n *simnet.Network, text string, flags ...string) string {
	t.Helper()
	args := append([]string{"sign", "--server", s.base, "--network", network}, flags...)
	code, out, errOut := quorate(t, "", append(args, fmt.Sprintf("%x", n.Message([]byte(text)).Bytes()))...)
	require.Zero(t, code, errOut)
	return out
}

func TestRestartAnswersKnownMessagesWithoutTraffic(t *testing.T) {
	n, err := simnet.Start(simnet.Options{Seed: 8, Validators: 8})
	require.NoError(t, err)
	defer n.Close()
	dir := t.TempDir()
	networks := map[string]*simnet.Network{"fuji": n}

	s := startService(t, dir, networks)
	first := s.sign(t, "fuji", n, "kept", "--quorum", "80")
	// A second process cannot use the same folder.
	code, _, errOut := quorate(t, "", "serve", "--listen", freeAddress(t), "--private-listen", freeAddress(t), "--data-dir", dir, "--network", "fuji="+n.NodeURL())
	require.Equal(t, exitFailed, code)
	require.Contains(t, errOut, "--data-dir")
	s.stop(t)

	s = startService(t, dir, networks)
	require.Equal(t, first, s.sign(t, "fuji", n, "kept", "--quorum", "80"))
	// A count of requests would count one that was under way.
	require.Zero(t, n.Repeated(), "validators were asked for a known message")
	s.stop(t)
}

// The loss of a network, with node and validators, does not affect the other.
func TestLossOfOneNetworkLeavesTheOther(t *testing.T) {
	one, err := simnet.Start(simnet.Options{Seed: 9, NetworkID: 50001})
	require.NoError(t, err)
	lost := false
	defer func() {
		if !lost {
			one.Close()
		}
	}()
	two, err := simnet.Start(simnet.Options{Seed: 10, NetworkID: 50002})
	require.NoError(t, err)
	defer two.Close()
	s := startService(t, t.TempDir(), map[string]*simnet.Network{"mainnet": one, "fuji": two})
	s.sign(t, "mainnet", one, "before")
	message := fmt.Sprintf("%x", one.Message([]byte("after")).Bytes())
	one.Close()
	lost = true
	// Requests that wait for the lost network meanwhile.
	waiting := make(chan int, 20)
	for range cap(waiting) {
		go func() {
			response, err := http.Post(s.base+"/v1/signatureAggregator/mainnet/aggregateSignatures", "application/json", strings.NewReader(`{"message":"`+message+`"}`))
			if err != nil {
				waiting <- 0
				return
			}
			_ = response.Body.Close()
			waiting <- response.StatusCode
		}()
	}
	for i := range 20 {
		s.sign(t, "testnet", two, fmt.Sprintf("after %d", i))
	}
	for range cap(waiting) {
		require.GreaterOrEqual(t, <-waiting, 500)
	}
	s.stop(t)
}

// Ctrl-C ends all rounds under way: callers get an error, and nothing keeps running.
func TestStopWithRoundsInFlight(t *testing.T) {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := goleak.IgnoreCurrent()
	n, err := simnet.Start(simnet.Options{Seed: 11, Validators: 9})
	require.NoError(t, err)
	dir := t.TempDir()
	s := startService(t, dir, map[string]*simnet.Network{"fuji": n})
	for _, v := range n.Validators() {
		require.NoError(t, v.SetBehaviour(simnet.Silent))
	}
	client := newHTTPClient()
	const requests = 30
	statuses := make(chan int, requests)
	for i := range requests {
		go func() {
			response, err := client.Post(s.base+"/v1/signatureAggregator/fuji/aggregateSignatures", "application/json",
				strings.NewReader(fmt.Sprintf(`{"message":"%x"}`, n.Message(fmt.Appendf(nil, "silence %d", i)).Bytes())))
			if err != nil {
				statuses <- 0
				return
			}
			_ = response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	// Each round asks all validators in the end, because a quorum never answers.
	require.Eventually(t, func() bool { return n.Requests() >= 9*requests }, 5*time.Minute, 10*time.Millisecond)
	s.stop(t)
	for range requests {
		// Given up for lack of answers while the service waited, or by its end.
		require.Contains(t, []int{http.StatusInternalServerError, http.StatusServiceUnavailable}, <-statuses)
	}
	n.Close()
	client.CloseIdleConnections()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for range 20 { // on a machine that is busy they take a while
		if err = goleak.Find(before); err == nil {
			break
		}
	}
	require.NoError(t, err)
}
