package aggregator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	snow "github.com/ava-labs/avalanchego/snow/validators"
	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/bls"
	"quorate/validators"
)

// verifier verifies the signatures that finished rounds did not need, and stores the valid
// ones for later rounds.
type verifier struct {
	jobs     chan verifyJob
	history  *history
	verified *signatures
	invalid  prometheus.Counter
	archive  *Archive // may be nil
	// idle returns a channel that is closed while no round is awake.
	idle func() <-chan struct{}
}

// verifyJob is the signatures of a finished round.
type verifyJob struct {
	message    *warp.UnsignedMessage
	set        *validators.Set
	members    []int
	authors    []signer // of the signatures
	signatures []*bls.Signature
	verified   bool // they were verified in the round already
}

// maxVerifyJobs bounds the queue. Dropped signatures are requested again if needed.
const maxVerifyJobs = 16

// keep queues the signatures of a finished round. It drops them if too many rounds wait.
func (v *verifier) keep(f *runner) {
	var unverified, done verifyJob
	for i := range f.round.members {
		m := &f.round.members[i]
		job := &unverified
		switch {
		case m.recalled: // stored already
			continue
		case m.state == pending:
		case m.state == signed:
			job = &done
		default:
			continue
		}
		job.members = append(job.members, i)
		job.authors = append(job.authors, f.round.author(i))
		job.signatures = append(job.signatures, m.signature)
	}
	done.verified = true
	for _, job := range []verifyJob{done, unverified} {
		if len(job.members) == 0 {
			continue
		}
		job.message, job.set = f.message, f.round.set
		select {
		case v.jobs <- job:
		default:
		}
	}
}

// run verifies the signatures that finished rounds left, until ctx ends. It works in short
// pieces while no round is awake, because only later requests profit from it.
func (v *verifier) run(ctx context.Context) {
	var pause <-chan struct{} // that was long enough
	var ok bool
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-v.jobs:
			for len(job.members) > 0 {
				if pause, ok = v.awaitIdle(ctx, pause); !ok {
					return
				}
				piece := job
				n := min(len(job.members), verifyPiece)
				piece.members, job.members = job.members[:n], job.members[n:]
				piece.authors, job.authors = job.authors[:n], job.authors[n:]
				piece.signatures, job.signatures = job.signatures[:n], job.signatures[n:]
				v.store(piece)
			}
		}
	}
}

const (
	// verifyPiece is how many signatures are verified without a pause: about 6 ms.
	verifyPiece = 128
	// idleTime is how long no round must have been awake before a piece is verified.
	idleTime = 10 * time.Millisecond
	// idleTimeout is how long a piece waits for such a pause.
	idleTimeout = 2 * time.Second
)

// awaitIdle waits until no round was awake for idleTime, so that consecutive requests do not
// wait for a verification. It returns the pause, and returns at once if last is a pause that
// still lasts. After idleTimeout it returns in any case, so that a piece is verified now and
// then however many rounds there are. It returns false if ctx ends.
func (v *verifier) awaitIdle(ctx context.Context, last <-chan struct{}) (pause <-chan struct{}, ok bool) {
	deadline := time.After(idleTimeout)
	for {
		idle := v.idle()
		select {
		case <-ctx.Done():
			return nil, false
		case <-deadline:
			return nil, true
		case <-idle:
		}
		if idle == last {
			return idle, true
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-time.After(idleTime):
			last = idle
		}
	}
}

// store verifies a piece of a job and caches the valid signatures.
func (v *verifier) store(piece verifyJob) {
	var bad []int
	if !piece.verified {
		bad = piece.verify()
	}
	id := piece.message.ID()
	var keys []*snow.Warp
	var good [][ava.SignatureLen]byte
	for n, i := range piece.members {
		member := piece.set.Validators[i]
		invalid := len(bad) > 0 && bad[0] == n
		if !piece.verified {
			v.history.judged(piece.authors[n], !invalid, time.Now())
		}
		if invalid {
			v.invalid.Inc()
			bad = bad[1:]
			continue
		}
		signature := [ava.SignatureLen]byte(piece.signatures[n].Compress())
		v.verified.put(id, keyOf(member), signature)
		keys, good = append(keys, member), append(good, signature)
	}
	if v.archive != nil && len(good) > 0 {
		v.archive.putSignatures(id, keys, good)
	}
}

// verifyMembers verifies the pending signatures of members and returns the members with
// invalid ones, ascending.
func verifyMembers(message *warp.UnsignedMessage, r *round, members []int) []int {
	keys, signatures := r.signaturesOf(members)
	return at(members, bls.NewVerifier(message.Bytes()).Verify(keys, signatures))
}

// culprits returns members with signatures that make the sum of all invalid, ascending; see
// bls.Verifier.Culprits.
func culprits(message *warp.UnsignedMessage, r *round, members []int) []int {
	keys, signatures := r.signaturesOf(members)
	return at(members, bls.NewVerifier(message.Bytes()).Culprits(keys, signatures))
}

// signaturesOf returns the keys of members and their signatures at hand.
func (r *round) signaturesOf(members []int) (keys []*bls.PublicKey, signatures []*bls.Signature) {
	for _, i := range members {
		keys = append(keys, r.set.Validators[i].PublicKey)
		signatures = append(signatures, r.members[i].signature)
	}
	return keys, signatures
}

// at replaces positions in members by the members there.
func at(members, positions []int) []int {
	for n, position := range positions {
		positions[n] = members[position]
	}
	return positions
}

// verify returns the positions in j.members whose signature is invalid, ascending.
func (j verifyJob) verify() []int {
	keys := make([]*bls.PublicKey, len(j.members))
	for n, i := range j.members {
		keys[n] = j.set.Validators[i].PublicKey
	}
	return bls.NewVerifier(j.message.Bytes()).Verify(keys, j.signatures)
}
