package ledger

// CheckpointEvery changes the frequency of checkpoints.
func (t *Projection) CheckpointEvery(n int) { t.checkpointEvery = n }

// CheckpointEvery changes the frequency of checkpoints.
func (m *Matcher) CheckpointEvery(n int) { m.checkpointEvery = n }

// Plain returns the output without its cached fields.
func (o *Output) Plain() Output {
	plain := *o
	plain.packed, plain.body = nil, nil
	return plain
}
