package p2p

import "time"

// Traffic describes the traffic on the current connections.
type Traffic struct {
	// Connected is the number of nodes that requests can be sent to.
	Connected int
	// FailRate is the fraction of messages that were dropped because a node's send buffer
	// was full.
	FailRate float64
	// LastSent and LastReceived are the times of the last messages; zero without
	// connections.
	LastSent, LastReceived time.Time
	// Requests is the number of pending requests, Longest the age of the oldest.
	Requests int
	Longest  time.Duration
}

// Traffic returns the current traffic. It visits every connection, so do not call it for
// every request.
func (n *Network) Traffic() Traffic {
	var t Traffic
	var sent, unsent uint64
	n.mu.RLock()
	t.Connected = len(n.connected)
	for _, s := range n.connected {
		sent += s.sent.Load()
		unsent += s.unsent.Load()
		t.LastSent = later(t.LastSent, s.lastSent.Load())
		t.LastReceived = later(t.LastReceived, s.lastReceived.Load())
	}
	n.mu.RUnlock()
	if unsent > 0 {
		t.FailRate = float64(unsent) / float64(sent+unsent)
	}
	n.calls.mu.RLock()
	defer n.calls.mu.RUnlock()
	t.Requests = len(n.calls.byID)
	for _, c := range n.calls.byID {
		t.Longest = max(t.Longest, time.Since(c.start))
	}
	return t
}

func later(t time.Time, unix int64) time.Time {
	if other := time.Unix(unix, 0); other.After(t) {
		return other
	}
	return t
}
