package webhook

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"quorate/internal/outbound"
	"quorate/internal/store"
)

// Source is the index of a chain that webhooks watch. It is safe for concurrent use.
type Source interface {
	// Tip returns the height of the last indexed block; false if it is unknown.
	Tip() (height uint64, known bool)
	// Block returns the block at a height up to the tip.
	Block(ctx context.Context, height uint64) (Block, error)
}

// Block is a block of a chain.
type Block interface {
	// Events returns the events of the block that a webhook reports, in their order.
	Events(ctx context.Context, w *Webhook) ([]Event, error)
}

// Event is something that happened in a block.
type Event struct {
	// Name is different for each event of the block.
	Name string
	// Body is the field event of the message.
	Body any
}

// Options configures a Worker. Book and Source are required.
type Options struct {
	Book *Book
	// Source returns the source that Webhook.Chain identifies; false while there is none.
	Source func(chain string) (Source, bool)
	// Admit reports whether events are reported to an owner at the moment; nil admits all owners.
	Admit func(owner string) bool
	// AllowPrivate permits receivers at non-public addresses. Use it on local networks only.
	AllowPrivate bool
	// Transport replaces the connections to receivers in tests.
	Transport http.RoundTripper
	// Metrics may be nil.
	Metrics prometheus.Registerer
	// Log may be nil.
	Log *slog.Logger
}

// Worker finds the events of all webhooks and delivers them. Only one worker makes progress on a store at a time.
type Worker struct {
	book    *Book
	source  func(string) (Source, bool)
	admit   func(owner string) bool
	client  *http.Client
	log     *slog.Logger
	sending chan struct{} // limits requests in flight
	results *prometheus.CounterVec

	mu    sync.Mutex
	hooks map[string]*hook // active webhooks by ID; guarded by mu
	// followers has the function that ends the follower of each chain; guarded by mu.
	followers map[string]context.CancelFunc
	// loaded is the revision of hooks, nil if they are not loaded. tips are the tips of chains from before it was read.
	// Both are guarded by mu.
	loaded *store.Cursor
	tips   map[string]uint64
}

// hook is an active webhook.
type hook struct {
	*outbox
	end   context.CancelFunc // of the sender
	ended atomic.Bool

	mu sync.Mutex
	w  *Webhook // immutable; guarded by mu
	// pause is the length of the pause after the last failure to find or write events, 0 after a success. It ends at
	// retryAt. Both are guarded by mu.
	pause   time.Duration
	retryAt time.Time
}

func (h *hook) webhook() *Webhook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.w
}

// maxPause is the maximum of hook.pause.
const maxPause = 10 * time.Second

// setResult updates the pause after an attempt to find and write events. Each failure in a row doubles the pause. It
// reports whether this is the first failure after a success.
func (h *hook) setResult(failed bool) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !failed {
		h.pause = 0
		return false
	}
	first = h.pause == 0
	h.pause = min(max(2*h.pause, followTime), maxPause)
	h.retryAt = time.Now().Add(h.pause)
	return first
}

// failing returns 1 if the last attempt to find and write events failed, else 0. It was not long ago: nothing is attempted
// for a chain that is not indexed any more, or for an owner that may have no webhooks.
func (h *hook) failing() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pause > 0 && time.Since(h.retryAt) < time.Minute {
		return 1
	}
	return 0
}

func (h *hook) paused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pause > 0 && time.Now().Before(h.retryAt)
}

// NewWorker returns a worker. It starts nothing.
func NewWorker(o Options) *Worker {
	metrics := promauto.With(o.Metrics) // which may be nil
	w := &Worker{
		book: o.Book, source: o.Source, admit: o.Admit, log: o.Log, client: newClient(o), sending: make(chan struct{}, maxSending),
		hooks: make(map[string]*hook), followers: make(map[string]context.CancelFunc),
		results: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_webhook_attempts_total", Help: "Attempts to deliver messages of webhooks, by result: delivered, failed (repeated later), given_up.",
		}, []string{"result"}),
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.admit == nil {
		w.admit = func(string) bool { return true }
	}
	for _, result := range []string{"delivered", "failed", "given_up"} {
		w.results.WithLabelValues(result)
	}
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_webhook_pending", Help: "Messages of webhooks that wait for their receivers.",
	}, func() float64 { return w.sum(func(h *hook) float64 { return float64(h.pending.Load()) }) })
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quorate_webhook_failing", Help: "Webhooks that wait because their next block or its events cannot be read; the log says why.",
	}, func() float64 { return w.sum((*hook).failing) })
	return w
}

// newClient returns a client for receivers, whose URLs and answers are untrusted.
func newClient(o Options) *http.Client {
	control := outbound.RefusePrivate
	if o.AllowPrivate {
		control = nil
	}
	client := outbound.NewClient(&http.Transport{
		MaxResponseHeaderBytes: maxAnswer,
		MaxIdleConns:           maxSending,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}, answerTime, control)
	client.Timeout = answerTime
	if o.Transport != nil {
		client.Transport = o.Transport
	}
	return client
}

// sum adds up a value of the active webhooks.
func (w *Worker) sum(value func(*hook) float64) (total float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hooks {
		total += value(h)
	}
	return total
}

const (
	// reloadTime is the interval between two looks for changed webhooks.
	reloadTime = time.Second
	// followTime is the interval between two looks for new blocks, and the pause after a failure.
	followTime = 500 * time.Millisecond
)

// Run works until ctx ends, and waits for the goroutines that it started.
func (w *Worker) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer w.client.CloseIdleConnections()
	defer running.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	ticker := time.NewTicker(reloadTime)
	defer ticker.Stop()
	failing := false
	for {
		tips := w.readTips()
		current, now, err := w.current(ctx)
		if err == nil && !current {
			if err = w.reload(ctx, &running); err == nil {
				w.mu.Lock()
				w.loaded, w.tips = &now, tips
				w.mu.Unlock()
			}
		}
		if err != nil && ctx.Err() == nil && !failing {
			w.log.Error("the webhooks cannot be read; trying again", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			w.forget()
			return
		case <-ticker.C:
		}
	}
}

// current reports whether no webhook has changed since they were loaded, and returns their revision.
func (w *Worker) current(ctx context.Context) (bool, store.Cursor, error) {
	now, err := store.ReadCursor(ctx, w.book.store, revision)
	w.mu.Lock()
	defer w.mu.Unlock()
	return err == nil && w.loaded != nil && *w.loaded == now, now, err
}

// readTips returns the tips of the chains that are followed.
func (w *Worker) readTips() map[string]uint64 {
	w.mu.Lock()
	chains := slices.Collect(maps.Keys(w.followers))
	w.mu.Unlock()
	tips := make(map[string]uint64, len(chains))
	for _, chain := range chains {
		if source, ok := w.source(chain); ok {
			tips[chain], _ = source.Tip()
		}
	}
	return tips
}

// upTo returns the height up to which the blocks of a chain, whose tip is given, were indexed before any change of a
// webhook that is not loaded. The events of later blocks are looked for with the change.
func (w *Worker) upTo(ctx context.Context, chain string, tip uint64) (uint64, error) {
	current, _, err := w.current(ctx)
	if err != nil || current {
		return tip, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(tip, w.tips[chain]), nil
}

// forget makes Run callable again.
func (w *Worker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.hooks)
	clear(w.followers)
	w.loaded, w.tips = nil, nil
}

// reload starts senders and followers for new webhooks and ends those of inactive ones.
func (w *Worker) reload(ctx context.Context, running *sync.WaitGroup) error {
	all, err := w.book.all(ctx)
	if err != nil {
		return err
	}
	from := make(map[string]uint64) // of active webhooks
	chains := make(map[string]bool)
	for i := range all {
		if all[i].Active {
			from[all[i].ID], chains[all[i].Chain] = all[i].From, true
		}
	}
	w.end(from, chains)
	for i := range all {
		if !all[i].Active {
			if err := purge(ctx, w.book.store, &all[i]); err != nil {
				return err
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range all {
		one := &all[i]
		if !one.Active {
			continue
		}
		if h := w.hooks[one.ID]; h != nil {
			h.mu.Lock()
			h.w = one
			h.mu.Unlock()
			continue
		}
		sending, end := context.WithCancel(ctx)
		h := &hook{outbox: newOutbox(w.book.store, one), end: end, w: one}
		w.hooks[one.ID] = h
		running.Go(func() { w.send(sending, h) })
	}
	for chain := range chains {
		if w.followers[chain] == nil {
			following, end := context.WithCancel(ctx)
			w.followers[chain] = end
			running.Go(func() { w.follow(following, chain) })
		}
	}
	return nil
}

// end ends the senders of webhooks and the followers of chains that are not given. It also ends the sender of a webhook
// that was activated again: its first block has changed.
func (w *Worker) end(from map[string]uint64, chains map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, h := range w.hooks {
		if first, ok := from[id]; !ok || first != h.webhook().From {
			h.ended.Store(true)
			h.end()
			delete(w.hooks, id)
		}
	}
	for chain, end := range w.followers {
		if !chains[chain] {
			end()
			delete(w.followers, chain)
		}
	}
}

// on returns the active webhooks of a chain whose owners are admitted.
func (w *Worker) on(chain string) (hooks []*hook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	admitted := make(map[string]bool)
	for _, h := range w.hooks {
		hook := h.webhook()
		if hook.Chain != chain {
			continue
		}
		ok, asked := admitted[hook.Owner]
		if !asked {
			ok = w.admit(hook.Owner)
			admitted[hook.Owner] = ok
		}
		if ok {
			hooks = append(hooks, h)
		}
	}
	return hooks
}

// follow finds the events of a chain until ctx ends.
func (w *Worker) follow(ctx context.Context, chain string) {
	ticker := time.NewTicker(followTime)
	defer ticker.Stop()
	failing := false
	for {
		err := w.advance(ctx, chain)
		if err != nil && ctx.Err() == nil && !failing {
			w.log.Error("the revision of the webhooks cannot be read; trying again", slog.String("chain", chain), slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// advance finds the events of a chain up to its tip, for at most followTime, so that the next call sees a new tip and
// new webhooks. A failure that concerns one webhook does not delay the others.
func (w *Worker) advance(ctx context.Context, chain string) error {
	source, ok := w.source(chain)
	if !ok {
		return nil
	}
	tip, ok := source.Tip()
	if !ok {
		return nil
	}
	tip, err := w.upTo(ctx, chain, tip)
	if err != nil {
		return err
	}
	hooks := w.on(chain)
	for begin := time.Now(); ctx.Err() == nil && time.Since(begin) < followTime; {
		group, height := w.behind(ctx, hooks, tip)
		if len(group) == 0 {
			return nil
		}
		block, err := source.Block(ctx, height)
		if err != nil {
			w.pauseFor(ctx, group, height, err)
			return nil
		}
		for _, h := range group {
			w.handleResult(ctx, h, h.report(ctx, block, height))
		}
	}
	return nil
}

// pauseFor pauses the webhooks that need a block, after an error reading it. Others may need other blocks. pauseFor logs the
// first failure in a row.
func (w *Worker) pauseFor(ctx context.Context, group []*hook, height uint64, err error) {
	if ctx.Err() != nil {
		return // not a failure of the block
	}
	first := false
	for _, h := range group {
		first = h.setResult(true) || first
	}
	if first {
		hook := group[0].webhook()
		w.log.Error("a block cannot be read for its webhooks, which wait; trying again",
			slog.String("chain", hook.Chain), slog.Uint64("block", height), slog.String("webhook", hook.ID), slog.Int("webhooks", len(group)), slog.Any("error", err))
	}
}

// handleResult pauses a webhook whose events could not be found or written, and logs the first such failure in a row.
func (w *Worker) handleResult(ctx context.Context, h *hook, err error) {
	if ctx.Err() != nil {
		return // not a failure of this webhook
	}
	if first := h.setResult(err != nil); first && !errors.Is(err, store.ErrFenced) {
		w.log.Error("finding or writing the events of a webhook failed; trying again",
			slog.String("webhook", h.webhook().ID), slog.Any("error", err))
	}
}

// nearTip is the number of blocks below the tip within which webhooks come before those further behind.
const nearTip = 16

// behind returns the webhooks whose turn it is, and the height that they search next. Those near the tip come first, so
// that a webhook that was held up does not delay others while it catches up. Among either kind, those furthest behind
// come first. Paused webhooks and those with a full outbox wait. group is empty if all others have reached the tip.
func (w *Worker) behind(ctx context.Context, hooks []*hook, tip uint64) (group []*hook, height uint64) {
	var turn [2]uint64 // of group: 0 near the tip, else 1; then the height
	for _, h := range hooks {
		if h.ended.Load() || h.paused() {
			continue
		}
		next, room, err := h.position(ctx, h.webhook().From)
		if err != nil {
			w.handleResult(ctx, h, err)
			continue
		}
		if !room || next > tip {
			h.setResult(false)
			continue
		}
		at := [2]uint64{0, next}
		if tip-next >= nearTip {
			at[0] = 1
		}
		switch order := slices.Compare(at[:], turn[:]); {
		case len(group) == 0 || order < 0:
			group, turn = append(group[:0], h), at
		case order == 0:
			group = append(group, h)
		}
	}
	return group, turn[1]
}

// report writes the messages about the events of a block.
func (h *hook) report(ctx context.Context, block Block, height uint64) error {
	w := h.webhook()
	events, err := block.Events(ctx, w)
	if err != nil {
		return err
	}
	bodies := make([][]byte, len(events))
	for i, e := range events {
		body := map[string]any{
			"webhookId": w.ID, "eventType": w.EventType, "event": e.Body,
			"messageId": messageID(w, binary.BigEndian.AppendUint64(nil, height), e.Name),
		}
		if bodies[i], err = canonical(body); err != nil {
			return err
		}
	}
	return h.add(ctx, height, bodies)
}

// admitTime is the interval between two looks whether an owner is admitted.
const admitTime = 10 * time.Second

// idleTime is the interval between two looks into an empty outbox. Its writer wakes the sender, but may not know whether a
// message was written.
const idleTime = time.Minute

// send delivers the messages of a webhook until ctx ends.
func (w *Worker) send(ctx context.Context, h *hook) {
	failing := false
	for ctx.Err() == nil {
		if !w.admit(h.webhook().Owner) {
			pause(ctx, nil, admitTime)
			continue
		}
		wait, err := w.step(ctx, h)
		if err != nil && ctx.Err() == nil && !failing && !errors.Is(err, store.ErrFenced) {
			w.log.Error("the messages of a webhook cannot be read or written; trying again", slog.String("webhook", h.webhook().ID), slog.Any("error", err))
		}
		failing = err != nil
		if wait > 0 {
			pause(ctx, h.wake, wait)
		}
	}
}

// step handles the message of a webhook that is due first. It returns the time until the next step. It waits for a place in
// sending before it reads the message.
func (w *Worker) step(ctx context.Context, h *hook) (wait time.Duration, err error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case w.sending <- struct{}{}:
	}
	defer func() { <-w.sending }()
	m, err := h.first(ctx)
	switch {
	case err != nil:
	case m == nil:
		return idleTime, nil
	case m.height < h.webhook().From: // from before the webhook was last activated
		err = h.remove(ctx, m)
	default:
		if due := time.Until(m.due); due > 0 {
			return due, nil
		}
		err = w.deliver(ctx, h, m)
	}
	if err != nil {
		return followTime, err
	}
	return 0, nil
}

// pause waits for a time, a value of wake, or the end of ctx.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// deliver makes one attempt to deliver a message and writes the result. The error is that of the store.
func (w *Worker) deliver(ctx context.Context, h *hook, m *message) error {
	hook := h.webhook()
	secret, err := w.book.Secret(ctx, hook.Owner)
	if err != nil {
		return err
	}
	err = w.post(ctx, hook.URL, secret, m.body)
	if ctx.Err() != nil {
		return ctx.Err() // not a failure of this webhook
	}
	attempt := int(m.attempts) + 1
	switch {
	case err == nil:
		w.results.WithLabelValues("delivered").Inc()
		return h.remove(ctx, m)
	case attempt < Attempts:
		w.results.WithLabelValues("failed").Inc()
		w.log.Debug("a message of a webhook was not accepted", slog.String("webhook", hook.ID), slog.Int("attempt", attempt), slog.Any("error", err))
		return h.postpone(ctx, m, time.Now().Add(retryPause(attempt)))
	}
	w.results.WithLabelValues("given_up").Inc()
	w.log.Warn("a message of a webhook was given up after all attempts", slog.String("webhook", hook.ID), slog.Any("error", err))
	return h.remove(ctx, m)
}

// post sends a message. An answer other than 2xx is an error. Errors do not contain the URL, which may have a secret.
func (w *Worker) post(ctx context.Context, url, secret string, body []byte) error {
	signature, err := Sign(secret, body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is invalid")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "quorate")
	request.Header.Set("x-signature", signature)
	return exchange(w.client, request)
}
