package contracts

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/store"
)

// version is the first byte of a row's value. It is followed by the time of the call in Unix seconds. Numbers are
// uvarints; texts are prefixed with their length.
const version = 1

func encodeContract(c *contract) []byte {
	b := binary.AppendUvarint([]byte{version}, uint64(c.asked.Unix()))
	b = append(b, byte(c.Standard))
	decimals := uint64(0) // 0 for none, else one more
	if c.Decimals != nil {
		decimals = uint64(*c.Decimals) + 1
	}
	b = binary.AppendUvarint(b, decimals)
	return appendText(appendText(b, c.Name), c.Symbol)
}

func decodeContract(address common.Address, b []byte) (contract, error) {
	r := reader{rest: b}
	c := contract{exists: true, asked: r.begin(), Contract: evm.Contract{Address: address}}
	c.Standard = chain.Standard(r.byte())
	if n := r.number(); n > 0 {
		d := uint8(n - 1)
		c.Decimals = &d
		r.broken = r.broken || n > 256
	}
	c.Name, c.Symbol = r.text(), r.text()
	return c, r.end()
}

func encodeURI(u *uri) []byte {
	b := binary.AppendUvarint([]byte{version}, uint64(u.asked.Unix()))
	missing := byte(0)
	if u.missing {
		missing = 1
	}
	return appendText(append(b, missing), u.text)
}

func decodeURI(b []byte) (uri, error) {
	r := reader{rest: b}
	u := uri{asked: r.begin(), missing: r.byte() == 1, text: r.text()}
	return u, r.end()
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// reader reads a value.
type reader struct {
	rest   []byte
	broken bool
}

func (r *reader) begin() time.Time {
	if r.byte() != version {
		r.broken = true
	}
	return time.Unix(int64(r.number()), 0)
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.broken = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.broken = true
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

func (r *reader) end() error {
	if r.broken || len(r.rest) > 0 {
		return fmt.Errorf("%w: what is kept of a contract", store.ErrCorrupt)
	}
	return nil
}
