package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
)

// dumpPage is the number of rows of one read.
const dumpPage = 512

// Dump writes every row of r. The dump begins with a line that names the format
// and ends with a zero byte. Rows are in the order of their families' numbers,
// and within a family in the order of (p, k). A row is the family's number, then
// p, k and v, each after its length as a uvarint. Stores of equal content have
// equal dumps, whatever the engine. If r may change meanwhile, pass a View.
func Dump(ctx context.Context, r Reader, w io.Writer) error {
	buf := fmt.Appendf(nil, "quorate store %d\n", Format)
	for _, family := range Families() {
		for record, err := range Rows(ctx, r, family) {
			if err != nil {
				return fmt.Errorf("dumping family %s: %w", family, err)
			}
			buf = append(buf, byte(family))
			for _, part := range [...][]byte{record.P, record.K, record.V} {
				buf = binary.AppendUvarint(buf, uint64(len(part)))
				buf = append(buf, part...)
			}
			if len(buf) >= 64<<10 {
				if _, err := w.Write(buf); err != nil {
					return fmt.Errorf("writing a dump: %w", err)
				}
				buf = buf[:0]
			}
		}
	}
	if _, err := w.Write(append(buf, 0)); err != nil {
		return fmt.Errorf("writing a dump: %w", err)
	}
	return nil
}

// DumpHash returns the SHA-256 of the Dump of r.
func DumpHash(ctx context.Context, r Reader) ([sha256.Size]byte, error) {
	digest := sha256.New()
	if err := Dump(ctx, r, digest); err != nil {
		return [sha256.Size]byte{}, err
	}
	return [sha256.Size]byte(digest.Sum(nil)), nil
}

// Rows yields all rows of a family in the order of (p, k). It ends after an error.
func Rows(ctx context.Context, r Reader, family Family) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var after *PK
		for {
			page, err := r.Walk(ctx, family, after, dumpPage)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, record := range page {
				if !yield(record, nil) {
					return
				}
			}
			if len(page) < dumpPage {
				return
			}
			after = &page[len(page)-1].PK
		}
	}
}
