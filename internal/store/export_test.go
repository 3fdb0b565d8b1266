package store

import "time"

// SetEnding sets how long a transaction of s may take to end.
func SetEnding(s *Postgres, d time.Duration) { s.ending = d }
