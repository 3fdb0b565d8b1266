// Package methods names the methods that contract calls select. A selector has four bytes, so several methods may
// share it and the name is a guess.
package methods

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/ava-labs/libevm/crypto"
)

// Selector is the beginning of call data: the first bytes of the Keccak-256 hash of the method's signature (Solidity's
// ABI specification).
type Selector [4]byte

// Table maps selectors to signatures. It is safe for concurrent use.
type Table struct{ signatures map[Selector]string }

// common lists the methods of token standards and of frequently called contracts.
const common = `
transfer(address,uint256)
transferFrom(address,address,uint256)
approve(address,uint256)
increaseAllowance(address,uint256)
decreaseAllowance(address,uint256)
permit(address,address,uint256,uint256,uint8,bytes32,bytes32)
mint(address,uint256)
mint(uint256)
mint(address)
mint()
burn(uint256)
burn(address,uint256)
burnFrom(address,uint256)
safeMint(address,uint256)
safeMint(address,string)
safeTransferFrom(address,address,uint256)
safeTransferFrom(address,address,uint256,bytes)
safeTransferFrom(address,address,uint256,uint256,bytes)
safeBatchTransferFrom(address,address,uint256[],uint256[],bytes)
setApprovalForAll(address,bool)
deposit()
deposit(uint256)
deposit(uint256,address)
withdraw()
withdraw(uint256)
withdraw(uint256,address,address)
redeem(uint256,address,address)
claim()
claim(uint256)
stake(uint256)
unstake(uint256)
getReward()
exit()
harvest()
multicall(bytes[])
multicall(uint256,bytes[])
aggregate((address,bytes)[])
aggregate3((address,bool,bytes)[])
execute(bytes,bytes[])
execute(bytes,bytes[],uint256)
execute(address,uint256,bytes)
execTransaction(address,uint256,bytes,uint8,uint256,uint256,uint256,address,address,bytes)
swapExactTokensForTokens(uint256,uint256,address[],address,uint256)
swapTokensForExactTokens(uint256,uint256,address[],address,uint256)
swapExactAVAXForTokens(uint256,address[],address,uint256)
swapTokensForExactAVAX(uint256,uint256,address[],address,uint256)
swapExactTokensForAVAX(uint256,uint256,address[],address,uint256)
swapAVAXForExactTokens(uint256,address[],address,uint256)
swapExactETHForTokens(uint256,address[],address,uint256)
swapExactTokensForETH(uint256,uint256,address[],address,uint256)
addLiquidity(address,address,uint256,uint256,uint256,uint256,address,uint256)
addLiquidityAVAX(address,uint256,uint256,uint256,address,uint256)
removeLiquidity(address,address,uint256,uint256,uint256,address,uint256)
removeLiquidityAVAX(address,uint256,uint256,uint256,address,uint256)
transferOwnership(address)
renounceOwnership()
initialize()
upgradeTo(address)
upgradeToAndCall(address,bytes)
grantRole(bytes32,address)
revokeRole(bytes32,address)
delegate(address)
vote(uint256,bool)
castVote(uint256,uint8)
sendWarpMessage(bytes)
sendCrossChainMessage((bytes32,address,(address,uint256),uint256,address[],bytes))
receiveCrossChainMessage(uint32,address)
retryMessageExecution(bytes32,(uint256,address,bytes32,address,uint256,address[],(uint256,address)[],bytes))
`

const (
	// maxFile is the maximum size of a file of signatures, in bytes.
	maxFile = 16 << 20
	// maxSignature is the maximum length of a signature, in bytes.
	maxSignature = 1024
)

// New returns a Table of the built-in signatures.
func New() *Table {
	t := &Table{signatures: make(map[Selector]string)}
	if err := t.add(strings.NewReader(common)); err != nil {
		panic(err) // a test parses them
	}
	return t
}

// Open returns a Table of the signatures in a file, one per line, and the built-in ones. It ignores empty lines and
// comments, which begin with #. If signatures share a selector, the first one in the file takes precedence, and the
// file over built-in ones.
func Open(path string) (*Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("method signatures: %w", err)
	}
	defer func() { _ = f.Close() }()
	t := &Table{signatures: make(map[Selector]string)}
	if err := t.add(f); err != nil {
		return nil, fmt.Errorf("method signatures in %s: %w", path, err)
	}
	return t, t.add(strings.NewReader(common))
}

// shape matches signatures: no blanks and no parameter names, only types. It does not check that a type exists.
var shape = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*\([A-Za-z0-9_,()\[\]]*\)$`)

func (t *Table) add(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: maxFile + 1}
	lines := bufio.NewScanner(limited)
	number := 0
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) > maxSignature || !shape.MatchString(line) || !balanced(line) {
			return fmt.Errorf("line %d: %.80q is no signature; write one as transfer(address,uint256)", number, line)
		}
		selector := Selector(crypto.Keccak256([]byte(line))[:4])
		if _, taken := t.signatures[selector]; !taken {
			t.signatures[selector] = line
		}
	}
	if limited.N == 0 {
		return fmt.Errorf("there are more than %d bytes", maxFile)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("after line %d: %w", number, err)
	}
	return nil
}

// balanced reports whether the parentheses are balanced and the last one closes the first.
func balanced(signature string) bool {
	depth := 0
	for i, c := range signature {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth < 0 || depth == 0 && c == ')' && i != len(signature)-1 {
			return false
		}
	}
	return depth == 0
}

// Name returns the signature of a method, empty if it is unknown.
func (t *Table) Name(s Selector) string { return t.signatures[s] }
