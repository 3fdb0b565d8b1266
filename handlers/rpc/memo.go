package rpc

import "sync"

// memo remembers the answers of calls by their text, the ones that were asked for last,
// within a bound in bytes. Safe for concurrent use.
type memo struct {
	half int // in bytes, of what is in one of the maps

	mu sync.RWMutex
	// recent and before are the answers by method and params. When recent is full, it
	// takes the place of before, of which those are kept that are asked for again. Both
	// guarded by mu.
	recent, before map[string]*remembered
	size           int // of recent, in bytes; guarded by mu
}

// remembered is an answer for as long as it lasts.
type remembered struct {
	json  []byte
	lasts func() bool
}

// aroundAnswer is about what an answer takes besides its text and its call's, in bytes.
const aroundAnswer = 160

func newMemo(most int) *memo {
	return &memo{half: most / 2, recent: make(map[string]*remembered)}
}

// get returns the answer of a call, nil if it is not known or does not hold any more.
func (m *memo) get(call []byte) []byte {
	m.mu.RLock()
	a, old := m.recent[string(call)], false
	if a == nil {
		a = m.before[string(call)]
		old = a != nil
	}
	m.mu.RUnlock()
	if a == nil || !a.lasts() {
		return nil
	}
	if old {
		m.keep(string(call), a)
	}
	return a.json
}

// put remembers an answer, which is not changed from then on.
func (m *memo) put(call []byte, json []byte, lasts func() bool) {
	if len(json) <= m.half/8 {
		m.keep(string(call), &remembered{json, lasts})
	}
}

func (m *memo) keep(call string, a *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := len(call) + len(a.json) + aroundAnswer
	if m.size+size > m.half {
		m.before, m.recent, m.size = m.recent, make(map[string]*remembered), 0
	}
	if known := m.recent[call]; known != nil {
		m.size -= len(call) + len(known.json) + aroundAnswer
	}
	m.recent[call] = a
	m.size += size
}
