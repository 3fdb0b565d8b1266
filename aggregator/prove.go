package aggregator

import (
	"time"

	"github.com/ava-labs/avalanchego/ids"
	snow "github.com/ava-labs/avalanchego/snow/validators"
	ava "github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/bls"
	"quorate/validators"
)

// proofJob is a round's unproven signatures, to be proven when there is time.
type proofJob struct {
	message    *warp.UnsignedMessage
	set        *validators.Set
	members    []int
	authors    []ids.NodeID // who sent the signatures
	signatures []*bls.Signature
	proven     bool // they were proven in the round already
}

// maxProofJobs bounds the rounds that wait to be proven; beyond it their
// signatures are let go, which costs nothing but a question asked again.
const maxProofJobs = 16

// keep hands a finished round's signatures to the prover.
func (a *Aggregator) keep(f *flight) {
	var unproven, done proofJob
	for i := range f.round.members {
		m := &f.round.members[i]
		job := &unproven
		switch {
		case m.recalled: // kept already
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
	done.proven = true
	for _, job := range []proofJob{done, unproven} {
		if len(job.members) == 0 {
			continue
		}
		job.message, job.set = f.message, f.round.set
		select {
		case a.proofs <- job:
		default:
		}
	}
}

// proveKept proves what finished rounds left until the aggregator ends. It works
// only while nothing is going on, in short pieces, so that nobody waits for it:
// what it makes is a convenience for later requests.
func (a *Aggregator) proveKept() {
	var pause <-chan struct{} // that was long enough
	var ok bool
	for {
		select {
		case <-a.life.Done():
			return
		case job := <-a.proofs:
			for len(job.members) > 0 {
				if pause, ok = a.awaitIdle(pause); !ok {
					return
				}
				piece := job
				n := min(len(job.members), proofPiece)
				piece.members, job.members = job.members[:n], job.members[n:]
				piece.authors, job.authors = job.authors[:n], job.authors[n:]
				piece.signatures, job.signatures = job.signatures[:n], job.signatures[n:]
				a.keepProven(piece)
			}
		}
	}
}

const (
	// proofPiece is how many signatures are proven without looking up: about 6 ms.
	proofPiece = 128
	// proofQuiet is how long there must have been no round before.
	proofQuiet = 10 * time.Millisecond
	// proofPatience is how long a piece waits for that.
	proofPatience = 2 * time.Second
)

// awaitIdle waits until no round has been under way for proofQuiet, so that a
// request which follows another one at once does not wait for a proof. If there is
// no such pause for proofPatience, any moment without a round will do. It returns
// the pause, and goes on at once if called with the one that still lasts; false if
// the aggregator ends.
func (a *Aggregator) awaitIdle(last <-chan struct{}) (pause <-chan struct{}, ok bool) {
	impatient := time.Now().Add(proofPatience)
	for {
		a.mu.Lock()
		idle := a.idle
		a.mu.Unlock()
		select {
		case <-a.life.Done():
			return nil, false
		case <-idle:
		}
		if idle == last || !time.Now().Before(impatient) {
			return idle, true
		}
		select {
		case <-a.life.Done():
			return nil, false
		case <-time.After(proofQuiet):
			last = idle
		}
	}
}

// keepProven proves a piece of a job and remembers what is good.
func (a *Aggregator) keepProven(piece proofJob) {
	var bad []int
	if !piece.proven {
		bad = a.proveJob(piece)
	}
	id := piece.message.ID()
	var keys []*snow.Warp
	var good [][ava.SignatureLen]byte
	for n, i := range piece.members {
		v := piece.set.Validators[i]
		if len(bad) > 0 && bad[0] == n {
			bad = bad[1:]
			a.history.judged(piece.authors[n], false, time.Now())
			continue
		}
		signature := [ava.SignatureLen]byte(piece.signatures[n].Compress())
		a.proven.put(id, keyOf(v), signature)
		keys, good = append(keys, v), append(good, signature)
	}
	if a.archive != nil && len(good) > 0 {
		a.archive.putSignatures(id, keys, good)
	}
}

// proveSignatures checks the pending signatures of members and returns the bad
// ones, ascending.
func (a *Aggregator) proveSignatures(msg *warp.UnsignedMessage, r *round, members []int) []int {
	job := proofJob{message: msg, set: r.set, members: members}
	for _, i := range members {
		job.signatures = append(job.signatures, r.members[i].signature)
	}
	bad := a.proveJob(job)
	for n, position := range bad {
		bad[n] = members[position]
	}
	return bad
}

// proveJob returns the positions in job.members whose signature is bad.
func (a *Aggregator) proveJob(job proofJob) []int {
	keys := make([]*bls.PublicKey, len(job.members))
	for n, i := range job.members {
		keys[n] = job.set.Validators[i].PublicKey
	}
	if a.oneByOne {
		var bad []int
		for n := range keys {
			if !job.signatures[n].SigValidate(true) || !ava.Verify(keys[n], job.signatures[n], job.message.Bytes()) {
				bad = append(bad, n)
			}
		}
		return bad
	}
	return bls.NewVerifier(job.message.Bytes()).Prove(keys, job.signatures)
}
