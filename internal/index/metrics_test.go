package index

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestCollectorTellsTheStatus(t *testing.T) {
	s := Status{State: Following, From: 2, Gaps: 3, Next: 8, Tip: 9, TipKnown: true, BlocksPerSecond: 2.5}
	require.NoError(t, testutil.CollectAndCompare(NewCollector(PChain, func() Status { return s }), strings.NewReader(`
# HELP quorate_index_blocks_per_second Blocks indexed per second, over the last seconds; 0 if none was indexed in the last 10 s.
# TYPE quorate_index_blocks_per_second gauge
quorate_index_blocks_per_second{chain="P"} 2.5
# HELP quorate_index_first_height Height of the first block that is indexed: above 0 if the node lacks earlier ones.
# TYPE quorate_index_first_height gauge
quorate_index_first_height{chain="P"} 2
# HELP quorate_index_gap_blocks Blocks indexed without a part that the node did not give, such as call traces.
# TYPE quorate_index_gap_blocks gauge
quorate_index_gap_blocks{chain="P"} 3
# HELP quorate_index_next_height Height of the first block that is not indexed yet. On the X-Chain, the genesis and the pre-Cortina transactions count before block 0.
# TYPE quorate_index_next_height gauge
quorate_index_next_height{chain="P"} 8
# HELP quorate_index_state 1 for the state of the index, 0 for the others.
# TYPE quorate_index_state gauge
quorate_index_state{chain="P",state="catching up"} 0
quorate_index_state{chain="P",state="following"} 1
quorate_index_state{chain="P",state="idle"} 0
quorate_index_state{chain="P",state="rebuilding"} 0
quorate_index_state{chain="P",state="retrying"} 0
quorate_index_state{chain="P",state="stalled"} 0
quorate_index_state{chain="P",state="stopped"} 0
quorate_index_state{chain="P",state="waiting"} 0
# HELP quorate_index_tip_height Height of the last accepted block that the node reported. On the X-Chain, the genesis and the pre-Cortina transactions count before block 0.
# TYPE quorate_index_tip_height gauge
quorate_index_tip_height{chain="P"} 9
`)))
}

func TestCollectorTellsWhatFails(t *testing.T) {
	s := Status{State: Waiting, Failing: "fetching blocks"}
	require.NoError(t, testutil.CollectAndCompare(NewCollector(CChain, func() Status { return s }), strings.NewReader(`
# HELP quorate_index_failing 1 for the work that fails and is tried again; nothing while all works.
# TYPE quorate_index_failing gauge
quorate_index_failing{chain="C",what="fetching blocks"} 1
`), "quorate_index_failing"))
}
