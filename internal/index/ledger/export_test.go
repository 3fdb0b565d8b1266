package ledger

// CheckpointEvery makes checkpoints more frequent.
func (t *Tenant) CheckpointEvery(n int) { t.checkpointEvery = n }

// CheckpointEvery makes checkpoints more frequent.
func (m *Matcher) CheckpointEvery(n int) { m.checkpointEvery = n }

// Plain is the output without what is remembered about it.
func (o *Output) Plain() Output {
	plain := *o
	plain.packed, plain.body = nil, nil
	return plain
}
