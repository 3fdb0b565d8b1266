package signing

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/ava-labs/avalanchego/vms/platformvm/warp"

	"quorate/aggregator"
	"quorate/internal/bounded"
)

const (
	// cacheBytes limits the cache; entryBytes is the memory of an entry besides its message,
	// justification and reply. Both are in bytes.
	cacheBytes = 8 << 20
	entryBytes = 1024
)

// requestCache maps the body of a request to the decoded request and its encoded reply, because relayers repeat
// requests. The signer is still called each time, and the reply is used only if the signer returns the message that
// the reply was encoded from. The cache contains only requests that were signed. It is safe for concurrent use.
type requestCache struct {
	entries *bounded.Cache[requestKey, *cachedRequest]
}

// requestKey is the hash of a request's body and its form.
type requestKey struct {
	body [sha256.Size]byte
	peer bool
}

// cachedRequest is immutable.
type cachedRequest struct {
	req     aggregator.Request
	message *warp.Message // nil until signed
	reply   []byte
}

func newRequestCache() *requestCache {
	return &requestCache{bounded.New(bounded.Options[requestKey, *cachedRequest]{
		Weight: cacheBytes,
		Weigh: func(_ requestKey, r *cachedRequest) uint32 {
			return uint32(entryBytes + 2*len(r.req.Message.Bytes()) + len(r.req.Justification) + len(r.reply))
		},
	})}
}

// decode returns the cached request of a body, or decodes it.
func (c *requestCache) decode(body []byte, f form) (requestKey, *cachedRequest, error) {
	key := requestKey{body: sha256.Sum256(body), peer: f.peer}
	if known, ok := c.entries.Get(key); ok {
		return key, known, nil
	}
	req, err := decode(body, f)
	return key, &cachedRequest{req: req}, err
}

// reply returns the body of the answer to a request with its signed message.
func (c *requestCache) reply(key requestKey, known *cachedRequest, message *warp.Message) ([]byte, error) {
	if known.message == message {
		return known.reply, nil
	}
	var content any = signedReply{SignedMessage: hexOf(message)}
	if key.peer {
		content = peerReply{SignedMessage: hexOf(message)}
	}
	reply, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	c.entries.Set(key, &cachedRequest{req: known.req, message: message, reply: reply})
	return reply, nil
}
