package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ava-labs/avalanchego/ids"

	"quorate/aggregator"
)

// Format is the format of reports. It changes when a program could misread an older report.
const Format = "quorate-measure-1"

// percentages are the shares of the weight, in percent, for which reports have the times.
var percentages = [...]uint64{33, 50, 67, 80, 90}

// Report is the result of a run. Times are in milliseconds.
type Report struct {
	Format       string    `json:"format"`
	Version      string    `json:"version"` // of this program
	NetworkID    uint32    `json:"networkId"`
	BlockchainID ids.ID    `json:"blockchainId"`
	Began        time.Time `json:"began"`
	Ended        time.Time `json:"ended"`
	// Interrupted says that the run ended before its last round.
	Interrupted bool     `json:"interrupted"`
	Settings    Recorded `json:"settings"`
	Subnet      Subnet   `json:"subnet"`
	// Validators has an entry for each node, in order of descending weight.
	Validators []Validator `json:"validators"`
	Rounds     []Round     `json:"rounds"`
}

// Recorded is Settings in a report.
type Recorded struct {
	Rounds     int     `json:"rounds"`
	IntervalMS float64 `json:"intervalMs"`
	TimeoutMS  float64 `json:"timeoutMs"`
	SettleMS   float64 `json:"settleMs"`
	Behind     uint64  `json:"behind"`
}

// Subnet is what a report says of all validators together, as of the last round.
type Subnet struct {
	ID ids.ID `json:"id"`
	// Validators is the number of BLS keys. Several nodes may share a key.
	Validators  int    `json:"validators"`
	Nodes       int    `json:"nodes"`
	TotalWeight uint64 `json:"totalWeight,string"`
	// KeylessWeight is the part of TotalWeight that cannot sign.
	KeylessWeight   uint64 `json:"keylessWeight,string"`
	ConnectedWeight uint64 `json:"connectedWeight,string"`
	// RepeatedBlocks counts the rounds with a block that an earlier round had: the
	// validators answered from a cache.
	RepeatedBlocks int `json:"repeatedBlocks"`
	// Quorums has the times to 33, 50, 67, 80 and 90% of TotalWeight, Curve those to each
	// multiple of 5%.
	Quorums []Quorum `json:"quorums"`
	Curve   []Quorum `json:"curve"`
}

// Quorum is the time until valid signatures have a share of the weight.
type Quorum struct {
	Percent uint64 `json:"percent"`
	// Reached counts the rounds in which they did, which the times are about.
	Reached int   `json:"reached"`
	Rounds  int   `json:"rounds"`
	Times   Times `json:"times"`
}

// Times are quantiles of times in milliseconds, by nearest rank; nil if there was none.
type Times struct {
	Median *float64 `json:"medianMs"`
	P90    *float64 `json:"p90Ms"`
	P99    *float64 `json:"p99Ms"`
}

// Validator is what a report says of one node.
type Validator struct {
	NodeID ids.NodeID `json:"nodeId"`
	// PublicKey is compressed, in hex.
	PublicKey string `json:"publicKey"`
	// Weight is that of the key, which SharedBy nodes have.
	Weight   uint64 `json:"weight,string"`
	SharedBy int    `json:"sharedBy"`
	// Member says that the node belongs to the set of the last round.
	Member bool `json:"member"`
	// Connected says that the request of the node's last round could be sent.
	Connected bool `json:"connected"`
	// Reason is why there was no valid signature in the node's last round, Detail what is
	// known beyond it. Both are empty if there was one.
	Reason aggregator.Reason `json:"reason,omitempty"`
	Detail string            `json:"detail,omitempty"`
	// Version is the one that the node reported last; empty if it was never connected.
	Version string `json:"version,omitempty"`
	// PingMS is the duration of the last ping; 0 if there was none.
	PingMS float64 `json:"pingMs,omitempty"`
	// Rounds is the number of rounds with the node, which is the sum of the counts below it.
	Rounds       int `json:"rounds"`
	Signed       int `json:"signed"`
	Invalid      int `json:"invalid"`
	Refused      int `json:"refused"`
	NotYet       int `json:"notYet"`
	TimedOut     int `json:"timedOut"`
	Lost         int `json:"lost"`
	NotConnected int `json:"notConnected"`
	// Times are those of the valid signatures.
	Times    Times     `json:"times"`
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Refusal is an error that a node answered with.
type Refusal struct {
	Code  int32  `json:"code"`
	Text  string `json:"text"`
	Count int    `json:"count"`
}

// Round is one round of a report.
type Round struct {
	At        time.Time `json:"at"`
	Height    uint64    `json:"height"`
	BlockHash ids.ID    `json:"blockHash"`
	MessageID ids.ID    `json:"messageId"`
	// Repeated says that an earlier round had the same block.
	Repeated     bool   `json:"repeated,omitempty"`
	PChainHeight uint64 `json:"pChainHeight"`
	SignedWeight uint64 `json:"signedWeight,string"`
	TotalWeight  uint64 `json:"totalWeight,string"`
	// TimesMS are the times to the shares of Subnet.Quorums; nil if the share was not reached.
	TimesMS []*float64 `json:"timesMs"`
}

// Time returns the round's time to a share of the weight, and false if it was not reached.
func (r *Round) Time(percent uint64) (ms float64, ok bool) {
	for i, p := range percentages {
		if p == percent && i < len(r.TimesMS) && r.TimesMS[i] != nil {
			return *r.TimesMS[i], true
		}
	}
	return 0, false
}

// Quorum returns the times to a share of the weight, or nil if the report does not have them.
func (s *Subnet) Quorum(percent uint64) *Quorum {
	for i := range s.Quorums {
		if s.Quorums[i].Percent == percent {
			return &s.Quorums[i]
		}
	}
	return nil
}

// WriteJSON writes the report in the form that Load reads.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(r)
}

// maxReport bounds the reports that Load reads, in bytes.
const maxReport = 256 << 20

// ErrFormat reports a file that is not a report, or one of another version.
var ErrFormat = errors.New("not a report of quorate measure that this version can read")

// Load reads a report that WriteJSON has written to a file.
func Load(file string) (*Report, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	var r Report
	if err := json.NewDecoder(io.LimitReader(f, maxReport)).Decode(&r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file, ErrFormat, err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("%s: %w: its format is %q, not %q", file, ErrFormat, r.Format, Format)
	}
	return &r, nil
}
