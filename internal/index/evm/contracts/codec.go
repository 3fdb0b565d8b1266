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

func decodeContract(address common.Address, b []byte) (contract, error) {
	r := row.Read(b)
	c := contract{exists: true, asked: r.Time(), Contract: evm.Contract{Address: address}}
	c.Standard = chain.Standard(r.Byte())
	if n := r.Number(); n > 256 {
		r.Fail(fmt.Errorf("%d decimals", n-1))
	} else if n > 0 {
		d := uint8(n - 1)
		c.Decimals = &d
	}
	c.Name, c.Symbol = string(r.Bytes()), string(r.Bytes())
	return c, r.End()
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
