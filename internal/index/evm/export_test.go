package evm

// ForgetEarly makes a projection remember next to nothing but what it must.
func (t *Projection) ForgetEarly() {
	t.caches = caches{2, 2, 2}
	t.reset()
}
