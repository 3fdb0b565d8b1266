package contracts

import (
	"fmt"

	"github.com/ava-labs/libevm/common"

	chain "quorate/internal/chain/evm"
	"quorate/internal/index/evm"
	"quorate/internal/index/internal/row"
)

func encodeContract(c *contract) []byte {
	w := row.New(32 + len(c.Name) + len(c.Symbol))
	w.Time(c.asked)
	w.Byte(byte(c.Standard))
	decimals := uint64(0) // 0 for none, else one more
	if c.Decimals != nil {
		decimals = uint64(*c.Decimals) + 1
	}
	w.Number(decimals)
	w.Bytes([]byte(c.Name))
	w.Bytes([]byte(c.Symbol))
	return w.B
}

// decodeContract decodes the rows of a contract. The second one is nil if an earlier version wrote the first.
func decodeContract(address common.Address, b, since []byte) (contract, error) {
	r := row.Read(b)
	c := contract{exists: true, asked: r.Time(), Contract: evm.Contract{Address: address}}
	c.Standard = chain.Standard(r.Byte())
	if n := r.Number(); n > 256 {
		r.Fail(fmt.Errorf("%d decimals", n-1))
	} else if n > 0 {
		d := uint8(n - 1)
		c.Decimals = &d
	}
	c.Name, c.Symbol, c.since = string(r.Bytes()), string(r.Bytes()), c.asked
	if err := r.End(); err != nil || since == nil {
		return c, err
	}
	r = row.Read(since)
	c.since = r.Time()
	return c, r.End()
}

func encodeSince(c *contract) []byte {
	w := row.New(8)
	w.Time(c.since)
	return w.B
}

func encodeURI(u *uri) []byte {
	w := row.New(32 + len(u.text))
	w.Time(u.asked)
	w.Bool(u.missing)
	w.Bytes([]byte(u.text))
	return w.B
}

func decodeURI(b []byte) (uri, error) {
	r := row.Read(b)
	u := uri{asked: r.Time(), missing: r.Bool(), text: string(r.Bytes())}
	return u, r.End()
}
