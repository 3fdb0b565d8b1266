package methods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func file(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "signatures.txt")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// The selectors are those that the standards print (ERC-20, ERC-721, ERC-1155).
func TestBuiltIn(t *testing.T) {
	table := New()
	for selector, want := range map[Selector]string{
		{0xa9, 0x05, 0x9c, 0xbb}: "transfer(address,uint256)",
		{0x23, 0xb8, 0x72, 0xdd}: "transferFrom(address,address,uint256)",
		{0x09, 0x5e, 0xa7, 0xb3}: "approve(address,uint256)",
		{0xa2, 0x2c, 0xb4, 0x65}: "setApprovalForAll(address,bool)",
		{0xf2, 0x42, 0x43, 0x2a}: "safeTransferFrom(address,address,uint256,uint256,bytes)",
		{0x2e, 0xb2, 0xc2, 0xd6}: "safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)",
		{0xd0, 0xe3, 0x0d, 0xb0}: "deposit()",
		{}:                       "",
	} {
		require.Equal(t, want, table.Name(selector))
	}
	require.Len(t, table.signatures, len(strings.Fields(common)), "each has a selector of its own")
}

func TestOpen(t *testing.T) {
	// The two of ERC-20's transfer's selector are a known pair.
	table, err := Open(file(t, "# ours\n\n  many_msg_babbage(bytes1)\r\nfoo((uint8,(bytes,int[3])[]),address)\ntransfer(address,uint256)\n"))
	require.NoError(t, err)
	require.Equal(t, "many_msg_babbage(bytes1)", table.Name(Selector{0xa9, 0x05, 0x9c, 0xbb}), "the first counts")
	require.Equal(t, "deposit()", table.Name(Selector{0xd0, 0xe3, 0x0d, 0xb0}))

	for name, content := range map[string]string{
		"line 1":       "transfer",
		"line 2":       "a()\ntransfer(address to)",
		"line 3":       "a()\nb()\nc(uint256",
		"line 4":       "\n\n\nc(a)(b)",
		"after line":   "a()\n" + strings.Repeat("a", 1<<20),
		"no signature": "a(" + strings.Repeat("uint256,", 200) + "uint256)",
		"more than":    strings.Repeat("# a comment\n", maxFile/12+1),
	} {
		_, err := Open(file(t, content))
		require.ErrorContains(t, err, name)
	}
	_, err = Open(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzAdd(f *testing.F) {
	f.Add("transfer(address,uint256)\n#\nf()")
	f.Add("f((a,b)[],c[3])")
	f.Fuzz(func(t *testing.T, content string) {
		table := &Table{signatures: make(map[Selector]string)}
		if table.add(strings.NewReader(content)) != nil {
			return
		}
		for _, signature := range table.signatures {
			require.True(t, strings.HasSuffix(signature, ")") && strings.Count(signature, "(") == strings.Count(signature, ")"), signature)
		}
	})
}
