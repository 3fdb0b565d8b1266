package store

// copies gathers what a read returns: rows in memory of their own, few of which share
// a piece of it. The zero value is ready.
type copies struct {
	rows []Row
	// Of the rows from here on, keys and values still lie in bytes, or in what bytes was
	// before it grew.
	loose int
	bytes []byte
}

const (
	// maxShared bounds what one row that is kept by a caller keeps of others.
	maxShared = 64 << 10
	// ownPiece is the size from which on a row has memory to itself.
	ownPiece = 4 << 10
)

// add copies a row.
func (c *copies) add(k, v []byte) {
	if len(k)+len(v) >= ownPiece {
		c.settle()
		c.rows = append(c.rows, copied(k, v))
		c.loose = len(c.rows)
		return
	}
	if c.bytes == nil {
		c.bytes = make([]byte, 0, ownPiece) // so that no value is nil
	}
	at := len(c.bytes)
	c.bytes = append(append(c.bytes, k...), v...)
	middle := at + len(k)
	c.rows = append(c.rows, Row{K: c.bytes[at:middle:middle], V: c.bytes[middle:]})
	if len(c.bytes) >= maxShared {
		c.settle()
	}
}

// miss adds a row that is not there.
func (c *copies) miss() { c.rows = append(c.rows, Row{}) }

// settle moves the loose rows to memory that belongs to the caller.
func (c *copies) settle() {
	piece := make([]byte, 0, len(c.bytes))
	for i := c.loose; i < len(c.rows); i++ {
		row := &c.rows[i]
		if row.V == nil {
			continue
		}
		at, middle := len(piece), len(piece)+len(row.K)
		piece = append(append(piece, row.K...), row.V...)
		*row = Row{K: piece[at:middle:middle], V: piece[middle:len(piece):len(piece)]}
	}
	c.loose, c.bytes = len(c.rows), c.bytes[:0]
}

// take returns the rows, nil if there are none, and begins anew.
func (c *copies) take() (rows []Row) {
	if len(c.rows) > 0 {
		c.settle()
		rows = append(rows, c.rows...)
	}
	c.drop()
	return rows
}

// drop forgets everything but memory.
func (c *copies) drop() {
	clear(c.rows)
	c.rows, c.bytes, c.loose = c.rows[:0], c.bytes[:0], 0
}
