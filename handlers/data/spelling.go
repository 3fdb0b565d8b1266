package data

import (
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/formatting/address"
)

// spelling caches the texts of IDs and addresses that an answer repeats, because encoding them is slow. It belongs to
// one answer.
type spelling struct {
	hrp    string // of addresses
	ids    map[ids.ID]string
	owners map[ids.ShortID]string // nil if addresses are not cached
}

// maxSpelt is the maximum number of cached texts of a kind.
const maxSpelt = 1024

func (n *network) spelling() *spelling {
	return &spelling{hrp: n.hrp, ids: make(map[ids.ID]string), owners: make(map[ids.ShortID]string)}
}

// id returns the text of the ID of a chain or an asset, of which there are few.
func (s *spelling) id(id ids.ID) string {
	text, ok := s.ids[id]
	if !ok {
		text = id.String()
		if len(s.ids) < maxSpelt {
			s.ids[id] = text
		}
	}
	return text
}

// bech32 returns the texts of addresses, [] if there are none.
func (s *spelling) bech32(all []ids.ShortID) ([]string, error) {
	texts := make([]string, len(all))
	for i, a := range all {
		text, ok := s.owners[a]
		if !ok {
			var err error
			if text, err = address.FormatBech32(s.hrp, a[:]); err != nil {
				return nil, err
			}
			if s.owners != nil && len(s.owners) < maxSpelt {
				s.owners[a] = text
			}
		}
		texts[i] = text
	}
	return texts, nil
}
