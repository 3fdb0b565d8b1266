package main

import (
	"io"
	"sync"

	"github.com/schollz/progressbar/v3"

	"quorate/internal/peernode"
)

// fewBlocks are followed without a bar.
const fewBlocks = 1000

// followShow shows on a terminal how far the P-Chains of networks are that are followed without a node, until each is
// executed to its tip for the first time. It shows one bar at a time. Lines of the log pass through it. It is safe for
// concurrent use.
type followShow struct {
	mu       sync.Mutex
	terminal io.Writer
	bar      *progressbar.ProgressBar // guarded by mu; nil if there is none
	what     string                   // guarded by mu; with bar
	from     uint64                   // guarded by mu; with bar
	done     map[string]bool          // guarded by mu; networks
}

func newFollowShow(terminal io.Writer) *followShow {
	return &followShow{terminal: terminal, done: make(map[string]bool)}
}

// Write writes a line of the log, and then the bar.
func (s *followShow) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar == nil {
		return s.terminal.Write(line)
	}
	_ = s.bar.Clear() // the terminal's failures show in the line
	n, err := s.terminal.Write(line)
	_ = s.bar.RenderBlank()
	return n, err
}

// show shows the status of a network. It is called again and again.
func (s *followShow) show(network string, at peernode.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done[network] {
		return
	}
	downloading, executing := "downloading the P-Chain of "+network, "executing the P-Chain of "+network
	mine := s.bar != nil && (s.what == downloading || s.what == executing)
	if !at.Confirmed.IsZero() {
		s.done[network] = true
		if mine {
			s.finish()
		}
		return
	}
	what, from, reached, target := executing, at.Height, at.Height, at.Target
	if at.Missing > 0 { // some of the others can be executed meanwhile
		what, reached = downloading, at.Target-at.Missing
	}
	if target <= at.Height || s.bar != nil && !mine {
		return
	}
	if !mine || s.what != what {
		if target-from < fewBlocks {
			return
		}
		s.finish()
		s.what, s.from = what, from
		s.bar = progressbar.NewOptions64(int64(target-from), progressbar.OptionSetWriter(s.terminal), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("blocks"), progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	}
	s.bar.ChangeMax64(int64(target - s.from))
	_ = s.bar.Set64(int64(reached - min(s.from, reached))) // fails only beyond the total
}

// finish removes the bar.
func (s *followShow) finish() {
	if s.bar != nil {
		_ = s.bar.Finish()
		s.bar = nil
	}
}

// close removes the bar before the command ends.
func (s *followShow) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish()
}
