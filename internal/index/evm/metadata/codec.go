package metadata

import "quorate/internal/index/internal/row"

// texts returns the texts of a value in their order.
func (k *kept) texts() []*string {
	d := &k.Document
	return []*string{
		(*string)(&k.Status), &d.Name, &d.Symbol, &d.Description, &d.Image, &d.AnimationURL, &d.ExternalURL, &d.BackgroundColor, &d.Attributes, &d.Properties,
	}
}

func encode(k *kept) []byte {
	w := row.New(256)
	w.Time(k.Updated)
	w.Number(k.failures)
	decimals := uint64(0) // 0 for none, else one more
	if k.Decimals != nil {
		decimals = *k.Decimals + 1
	}
	w.Number(decimals)
	for _, s := range k.texts() {
		w.Bytes([]byte(*s))
	}
	return w.B
}

// decode reads a value; a missing row gives zeros.
func decode(b []byte) (kept, error) {
	k := kept{Metadata: Metadata{Status: Unindexed}}
	if b == nil {
		return k, nil
	}
	r := row.Read(b)
	k.Updated, k.failures = r.Time(), r.Number()
	if n := r.Number(); n > 0 {
		n--
		k.Decimals = &n
	}
	for _, to := range k.texts() {
		*to = string(r.Bytes())
	}
	return k, r.End()
}
