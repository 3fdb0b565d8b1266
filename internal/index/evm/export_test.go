package evm

// ForgetEarly makes a projection remember next to nothing but what it must.
func (t *Projection) ForgetEarly() {
	t.caches = caches{2, 2, 2}
	t.reset()
}

// OldBlockRow returns the row of a block as version 2 wrote it.
func OldBlockRow(v []byte) []byte {
	ref := read(v).ref(0)
	return appendRef([]byte{version}, &ref)
}
