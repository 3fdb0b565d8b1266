package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// slowNode stands before the node API of a simulated network. It answers sets of validators one after the other, as a
// node does under the lock of its P-Chain, and calls that contain slowMark not at all. It counts the calls except those
// that the service makes by itself all the time.
type slowNode struct {
	behind string // URL
	server *http.Server
	url    string

	lock            sync.Mutex // of the P-Chain
	calls, now      atomic.Int64
	most            atomic.Int64
	httpConnections *http.Client
}

const (
	// setTime is how long a set of validators takes: mainnet's a day back took about as long.
	setTime = 20 * time.Millisecond
	// slowMark marks calls that the node does not answer.
	slowMark = "attack-slow"
)

// own are the methods that the service calls by itself.
var own = []string{`"platform.getProposedHeight"`, `"platform.getAllValidatorsAt"`, `"info.`, `"platform.getBlock`, `"platform.getHeight","params":{}`}

func startNode(behind string) (*slowNode, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &slowNode{behind: behind, url: "http://" + ln.Addr().String(), httpConnections: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	n.server = &http.Server{Handler: n, ReadHeaderTimeout: time.Minute}
	go func() { _ = n.server.Serve(ln) }() // until close
	return n, nil
}

func (n *slowNode) close() {
	_ = n.server.Close()
	n.httpConnections.CloseIdleConnections()
}

func (n *slowNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !n.isOwn(body) {
		n.calls.Add(1)
		now := n.now.Add(1)
		defer n.now.Add(-1)
		for most := n.most.Load(); now > most && !n.most.CompareAndSwap(most, now); most = n.most.Load() {
		}
	}
	if bytes.Contains(body, []byte(slowMark)) {
		<-r.Context().Done()
		return
	}
	if bytes.Contains(body, []byte("platform.getValidatorsAt")) {
		n.lock.Lock()
		time.Sleep(setTime)
		n.lock.Unlock()
	}
	n.pass(r.Context(), w, r, body)
}

func (n *slowNode) isOwn(body []byte) bool {
	for _, method := range own {
		if bytes.Contains(body, []byte(method)) {
			return true
		}
	}
	return false
}

// pass hands a call to the simulated network.
func (n *slowNode) pass(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte) {
	request, err := http.NewRequestWithContext(ctx, r.Method, n.behind+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	response, err := n.httpConnections.Do(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}
