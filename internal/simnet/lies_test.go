package simnet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/proto/pb/sdk"
	"github.com/ava-labs/avalanchego/utils/crypto/bls"
	"github.com/ava-labs/avalanchego/vms/platformvm/warp"
)

func TestLies(t *testing.T) {
	const asked = 160
	for lies, share := range map[Lies]float64{OtherMessage: 1, Negated: 1, SwappedKeys: 1, SecondAnswer: 0.5, SecondMessage: 0.5, OneAtATime: 0.25} {
		t.Run(lies.String(), func(t *testing.T) {
			n, err := Start(Options{Seed: 3, Validators: 10, Faults: Faults{WrongSignature: 0.4}, Lies: lies})
			require.NoError(t, err)
			defer n.Close()
			valid := func(v *Validator, m *warp.UnsignedMessage) bool {
				v.count(m.ID())
				var answer sdk.SignatureResponse
				require.NoError(t, proto.Unmarshal(v.answer(m, nil, Answer{Bytes: response(n.signature(m, v.Index)), Times: 1}).Bytes, &answer))
				signature, err := bls.SignatureFromBytes(answer.Signature)
				require.NoError(t, err)
				return bls.Verify(v.signer.PublicKey(), signature, m.Bytes())
			}
			invalid := 0
			for i := range asked / 4 {
				m := n.Message(fmt.Append(nil, i))
				for _, v := range n.Validators() {
					if v.Behaviour() == WrongSignature && !valid(v, m) {
						invalid++
					}
				}
			}
			require.InDelta(t, share*asked, invalid, asked/6)
		})
	}
}
