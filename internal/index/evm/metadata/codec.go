package metadata

import (
	"encoding/binary"
	"time"
)

// version is the first byte of a row's value. Numbers are uvarints; texts are prefixed with their length; the time is
// in Unix seconds.
const version = 1

// texts returns the texts of a value in their order.
func (k *kept) texts() []*string {
	d := &k.Document
	return []*string{
		(*string)(&k.Status), &d.Name, &d.Symbol, &d.Description, &d.Image, &d.AnimationURL, &d.ExternalURL, &d.BackgroundColor, &d.Attributes, &d.Properties,
	}
}

func encode(k *kept) []byte {
	b := binary.AppendUvarint([]byte{version}, uint64(k.Updated.Unix()))
	b = binary.AppendUvarint(b, k.failures)
	decimals := uint64(0) // 0 for none, else one more
	if k.Decimals != nil {
		decimals = *k.Decimals + 1
	}
	b = binary.AppendUvarint(b, decimals)
	for _, s := range k.texts() {
		b = append(binary.AppendUvarint(b, uint64(len(*s))), *s...)
	}
	return b
}

// decode reads a value; a missing row gives zeros.
func decode(b []byte) (kept, error) {
	k := kept{Metadata: Metadata{Status: Unindexed}}
	if b == nil {
		return k, nil
	}
	if len(b) == 0 || b[0] != version {
		return k, errKept("another version")
	}
	b = b[1:]
	number := func() (n uint64, ok bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return 0, false
		}
		b = b[size:]
		return n, true
	}
	seconds, ok := number()
	failures, ok2 := number()
	decimals, ok3 := number()
	if !ok || !ok2 || !ok3 {
		return k, errKept("a number is missing")
	}
	k.Updated, k.failures = time.Unix(int64(seconds), 0).UTC(), failures
	if decimals > 0 {
		decimals--
		k.Decimals = &decimals
	}
	for _, to := range k.texts() {
		n, ok := number()
		if !ok || n > uint64(len(b)) {
			return k, errKept("a text is missing")
		}
		*to = string(b[:n])
		b = b[n:]
	}
	if len(b) > 0 {
		return k, errKept("something follows the end")
	}
	return k, nil
}
