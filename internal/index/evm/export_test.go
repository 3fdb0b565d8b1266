package evm

// ForgetEarly makes a tenant remember next to nothing but what it must.
func (t *Tenant) ForgetEarly() {
	t.caches = caches{2, 2, 2}
	t.reset()
}
