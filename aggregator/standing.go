package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/ids"
)

// signer is a node that answers for a BLS key. Answers and a standing belong to both, because a set may
// give a node a key that is not the node's: the owner of an L1 may register the node ID of another
// operator, and a node may have changed its key since an old set.
type signer struct {
	node ids.NodeID
	key  publicKey
}

// standing is what the signatures of a signer say about its next one. The zero value is that
// of an unknown signer.
type standing struct {
	strikes  int       // invalid signatures that have not faded
	since    time.Time // of the last strike, or of the last one that faded
	verified int       // signatures verified since the last strike
}

const (
	// strikeFade is how long one strike lasts.
	strikeFade = 3 * time.Hour
	// maxStrikes bounds the strikes of a signer.
	maxStrikes = 8
	// strikePrice is how many verified signatures make up for the first strike; it doubles
	// with each further one.
	strikePrice = 16
)

// at returns the standing at now, without the strikes that have faded.
func (s standing) at(now time.Time) standing {
	if s.strikes > 0 {
		faded := min(max(int(now.Sub(s.since)/strikeFade), 0), s.strikes)
		s.strikes -= faded
		s.since = s.since.Add(time.Duration(faded) * strikeFade)
	}
	return s
}

// trusted reports whether the next signature counts before it is verified.
func (s standing) trusted() bool {
	if s.strikes == 0 {
		return s.verified > 0
	}
	return s.verified >= strikePrice<<(s.strikes-1)
}

// struck reports whether the signer is asked last.
func (s standing) struck() bool { return s.strikes > 0 && !s.trusted() }

// judged returns the standing after the verification of a signature at now.
func (s standing) judged(valid bool, now time.Time) standing {
	s = s.at(now)
	if valid {
		s.verified++
		return s
	}
	return standing{strikes: min(s.strikes+1, maxStrikes), since: now}
}

// Strikes are the invalid signatures of a node for a BLS key.
type Strikes struct {
	NodeID ids.NodeID `json:"nodeId"`
	// PublicKey is uncompressed.
	PublicKey []byte    `json:"publicKey"`
	Count     int       `json:"count"`
	Since     time.Time `json:"since"`
	// Verified is the number of signatures that were verified since.
	Verified int `json:"verified"`
}

// StrikeStore stores strikes, so that they survive a restart. Save replaces what was saved before. Processes that share
// a store each add what the others saved.
type StrikeStore interface {
	Load(ctx context.Context) ([]Strikes, error)
	Save(ctx context.Context, all []Strikes) error
}

const (
	// strikePeriod is the time between two saves.
	strikePeriod = 10 * time.Second
	// strikeTimeout bounds one save or load.
	strikeTimeout = 5 * time.Second
)

// keepStrikes loads the strikes and saves them after changes, until the aggregator is closed.
// It does not save before it has loaded.
func (a *Aggregator) keepStrikes(store StrikeStore) {
	ticker := time.NewTicker(strikePeriod)
	defer ticker.Stop()
	loaded := false
	for {
		var err error
		if loaded {
			err = a.saveStrikes(a.life, store)
		} else if err = a.loadStrikes(store); err == nil {
			loaded = true
		}
		if err != nil && a.life.Err() == nil {
			a.log.Warn("strikes of validators do not survive a restart for now; check the store", slog.Any("error", err))
		}
		select {
		case <-ticker.C:
			continue
		case <-a.life.Done():
		}
		if loaded {
			if err := a.saveStrikes(context.Background(), store); err != nil {
				a.log.Warn("strikes of validators do not survive the restart; check the store", slog.Any("error", err))
			}
		}
		return
	}
}

func (a *Aggregator) loadStrikes(store StrikeStore) error {
	ctx, cancel := context.WithTimeout(a.life, strikeTimeout)
	defer cancel()
	all, err := store.Load(ctx)
	if err != nil {
		return fmt.Errorf("loading strikes: %w", err)
	}
	a.history.restore(all)
	return nil
}

func (a *Aggregator) saveStrikes(ctx context.Context, store StrikeStore) error {
	all, version, changed := a.history.strikes(time.Now())
	if !changed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, strikeTimeout)
	defer cancel()
	stored, err := store.Load(ctx)
	if err != nil {
		return fmt.Errorf("loading the strikes of other processes: %w", err)
	}
	if err := store.Save(ctx, latestStrikes(append(all, stored...), time.Now())); err != nil {
		return fmt.Errorf("saving strikes: %w", err)
	}
	a.history.strikesSaved(version)
	return nil
}

// latestStrikes returns the latest maxStruck strikes that have not faded at now, one for each signer.
func latestStrikes(all []Strikes, now time.Time) []Strikes {
	slices.SortStableFunc(all, func(a, b Strikes) int { return b.Since.Compare(a.Since) })
	seen := make(map[signer]bool, len(all))
	latest := make([]Strikes, 0, min(len(all), maxStruck))
	for _, s := range all {
		if len(latest) == maxStruck {
			break
		}
		if len(s.PublicKey) != keyLen {
			continue
		}
		who := signer{s.NodeID, publicKey(s.PublicKey)}
		if !seen[who] && (standing{strikes: s.Count, since: s.Since}).at(now).strikes > 0 {
			seen[who] = true
			latest = append(latest, s)
		}
	}
	return latest
}
