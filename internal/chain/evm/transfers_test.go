package evm

import (
	"bytes"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/libevm/common"
)

// words32 encodes numbers as 32-byte words.
func words32(numbers ...uint64) []byte {
	var b []byte
	for _, n := range numbers {
		w := uint256.NewInt(n).Bytes32()
		b = append(b, w[:]...)
	}
	return b
}

func TestTransfers(t *testing.T) {
	bob := common.HexToAddress("0xb0b0000000000000000000000000000000000000")
	from, to, id := common.BytesToHash(alice[:]), common.BytesToHash(bob[:]), common.BigToHash(uint256.NewInt(77).ToBig())
	transfer := func(s Standard, position uint32, id, amount uint64) Transfer {
		return Transfer{Standard: s, Contract: token, LogIndex: 3, Position: position, From: alice, To: bob, TokenID: *uint256.NewInt(id), Amount: *uint256.NewInt(amount)}
	}
	tooMany := words32(64, 128, 1, 1)
	tooMany = append(tooMany, bytes.Repeat([]byte{0xff}, 32)...)
	for name, c := range map[string]struct {
		topics []common.Hash
		data   []byte
		want   []Transfer
	}{
		"ERC-20":                     {[]common.Hash{transferTopic, from, to}, words32(9), []Transfer{transfer(ERC20, 0, 0, 9)}},
		"ERC-721":                    {[]common.Hash{transferTopic, from, to, id}, nil, []Transfer{transfer(ERC721, 0, 77, 1)}},
		"ERC-1155":                   {[]common.Hash{singleTopic, id, from, to}, words32(77, 8), []Transfer{transfer(ERC1155, 0, 77, 8)}},
		"ERC-1155 batch":             {[]common.Hash{batchTopic, id, from, to}, words32(64, 160, 2, 5, 6, 2, 50, 60), []Transfer{transfer(ERC1155, 0, 5, 50), transfer(ERC1155, 1, 6, 60)}},
		"an empty batch":             {[]common.Hash{batchTopic, id, from, to}, words32(64, 96, 0, 0), []Transfer{}},
		"batch of unequal arrays":    {[]common.Hash{batchTopic, id, from, to}, words32(64, 160, 2, 5, 6, 1, 50), nil},
		"batch beyond the data":      {[]common.Hash{batchTopic, id, from, to}, words32(64, 160, 9, 5, 6, 9, 50, 60), nil},
		"batch with huge offset":     {[]common.Hash{batchTopic, id, from, to}, words32(1<<63, 160, 1, 1), nil},
		"batch with offset past end": {[]common.Hash{batchTopic, id, from, to}, words32(128, 128, 1, 1), nil},
		"batch of more than fits":    {[]common.Hash{batchTopic, id, from, to}, tooMany, nil},
		"no topics":                  {nil, words32(9), nil},
		"another log":                {[]common.Hash{id, from, to}, words32(9), nil},
		"amount cut short":           {[]common.Hash{transferTopic, from, to}, words32(9)[:31], nil},
		"a topic that is no address": {[]common.Hash{transferTopic, {1}, to}, words32(9), nil},
		"nothing indexed":            {[]common.Hash{transferTopic}, words32(1, 2, 3), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Transfers(&Log{Index: 3, Address: token, Topics: c.topics, Data: c.data})
			require.Equal(t, c.want, got)
		})
	}
}

// TestTopics compares the topics with those of the contracts' ABIs.
func TestTopics(t *testing.T) {
	require.Equal(t, "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", transferTopic.Hex())
	require.Equal(t, "0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62", singleTopic.Hex())
	require.Equal(t, "0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb", batchTopic.Hex())
	require.Equal(t, "0x2a211ad4a59ab9d003852404f9c57c690704ee755f3c79d2c2812ad32da99df8", sentTopic.Hex())
	require.Equal(t, "0x292ee90bbaf70b5d4936025e09d56ba08f3e421156b6a568cf3c2840d9343e34", receivedTopic.Hex())
}

func TestMessages(t *testing.T) {
	id, chain := common.Hash{1}, common.Hash{2}
	logs := []Log{
		{Address: token, Topics: []common.Hash{sentTopic, id, chain}}, // any contract can emit this log
		{Address: Teleporter, Topics: []common.Hash{sentTopic, id}},
		{Address: Teleporter, Topics: []common.Hash{sentTopic, id, chain}},
		{Address: Teleporter, Topics: []common.Hash{receivedTopic, id, chain, {}}},
	}
	require.Equal(t, []Message{{ID: id, BlockchainID: ids.ID(chain)}, {ID: id, Delivered: true, BlockchainID: ids.ID(chain)}}, Messages(logs))
}
