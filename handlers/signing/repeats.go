package signing

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/maypok86/otter/v2"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
)

const (
	// repeatsBytes bounds what is remembered of requests, repeatCost is what each
	// takes besides its message, justification and reply; in bytes.
	repeatsBytes = 8 << 20
	repeatCost   = 1024
)

// repeats remembers what the bytes of a request mean and how its reply was
// written, since the same request often comes again. It decides nothing: the
// signer is asked each time, and the reply is used only if its answer is the very
// message that the reply was written of. Only requests that were signed are
// remembered. Bounded in bytes; safe for concurrent use.
type repeats struct {
	cache *otter.Cache[repeatID, *repeat]
}

// repeatID is the hash of a request's body and the form it was read in.
type repeatID struct {
	body [sha256.Size]byte
	peer bool
}

// repeat is immutable.
type repeat struct {
	req     aggregator.Request
	message *warp.Message // nil: not signed yet
	reply   []byte
}

func newRepeats() (*repeats, error) {
	cache, err := otter.New(&otter.Options[repeatID, *repeat]{
		MaximumWeight: repeatsBytes,
		Weigher: func(_ repeatID, r *repeat) uint32 {
			return uint32(repeatCost + 2*len(r.req.Message.Bytes()) + len(r.req.Justification) + len(r.reply))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of requests: %w", err)
	}
	return &repeats{cache: cache}, nil
}

// decode makes a request of a body, like the function of that name.
func (r *repeats) decode(body []byte, f form) (repeatID, *repeat, error) {
	id := repeatID{body: sha256.Sum256(body), peer: f.peer}
	if known, ok := r.cache.GetIfPresent(id); ok {
		return id, known, nil
	}
	req, err := decode(body, f)
	return id, &repeat{req: req}, err
}

// reply is the body that answers a request with its signed message.
func (r *repeats) reply(id repeatID, known *repeat, message *warp.Message) ([]byte, error) {
	if known.message == message {
		return known.reply, nil
	}
	var content any = signedReply{hexOf(message)}
	if id.peer {
		content = peerReply{hexOf(message)}
	}
	reply, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	r.cache.Set(id, &repeat{req: known.req, message: message, reply: reply})
	return reply, nil
}
