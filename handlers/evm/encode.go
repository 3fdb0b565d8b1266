package evm

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/holiman/uint256"

	"github.com/ava-labs/libevm/common"

	"quorate/internal/index/evm"
)

// Lists encode themselves, with the same bytes as encoding/json: reflection over a page of a hundred items of twenty
// fields would cost more than reading them from the index. The struct tags define the format; a test compares both.

// number encodes as a decimal number in quotes.
type number uint64

func (n number) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(n), 10), nil }

// amount encodes as a decimal number in quotes.
type amount uint256.Int

func (a amount) MarshalText() ([]byte, error) { return appendDecimal(nil, &a), nil }

// hexBytes encodes as hexadecimal digits in quotes, with the prefix 0x if there are any.
type hexBytes []byte

func (h hexBytes) MarshalText() ([]byte, error) {
	if len(h) == 0 {
		return nil, nil
	}
	return hex.AppendEncode([]byte("0x"), h), nil
}

func appendDecimal(b []byte, a *amount) []byte {
	n := (*uint256.Int)(a)
	if n.IsUint64() {
		return strconv.AppendUint(b, n.Uint64(), 10)
	}
	return append(b, n.Dec()...)
}

// member encodes itself as the fields of a JSON object, separated by commas.
type member interface{ appendMembers(b []byte) []byte }

func appendObject(b []byte, m member) []byte { return append(m.appendMembers(append(b, '{')), '}') }

// items are the items of a list. Each is created when it is encoded, since all together would take more memory than
// the answer.
type items[T any, P interface {
	*T
	member
}] struct {
	n    int
	item func(i int, x *T) // sets x to item i
}

func (l *items[T, P]) appendTo(b []byte) []byte {
	b = append(b, '[')
	x := new(T)
	for i := range l.n {
		if i > 0 {
			b = append(b, ',')
		}
		l.item(i, x)
		b = appendObject(b, P(x))
	}
	return append(b, ']')
}

// page is an answer that contains one page of a list.
type page[T any, P interface {
	*T
	member
}] struct {
	// next is the token of the next page, empty on the last one.
	next string
	// missing spans the blocks without call traces, whose items the list lacks; nil for none.
	missing *evm.Span
	// name is the name of the field with the items.
	name string
	items[T, P]
}

// pageOf returns a page of n items.
func pageOf[T any, P interface {
	*T
	member
}](name string, n int, item func(i int, x *T)) *page[T, P] {
	return &page[T, P]{name: name, items: items[T, P]{n, item}}
}

// AppendJSON implements reply.Appender.
func (p *page[T, P]) AppendJSON(b []byte) []byte {
	b = append(appendMissing(appendNext(append(b, '{'), p.next), p.missing), '"')
	b = append(append(b, p.name...), `":`...)
	return append(p.appendTo(b), '}')
}

// appendNext appends the field nextPageToken if there is a next page.
func appendNext(b []byte, token string) []byte {
	if token == "" {
		return b
	}
	return append(appendText(append(b, `"nextPageToken":`...), token), ',')
}

// appendMissing appends the span of blocks without call traces, if any.
func appendMissing(b []byte, missing *evm.Span) []byte {
	if missing == nil {
		return b
	}
	b = strconv.AppendUint(append(b, `"tracesMissing":[`...), missing.From, 10)
	return append(strconv.AppendUint(append(b, ','), missing.To, 10), `],`...)
}

// appendValue appends a value that an answer contains once.
func appendValue(b []byte, v any) []byte {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err) // values consist of texts and numbers
	}
	return append(b, content...)
}

// plain reports for each byte whether encoding/json leaves it unchanged in a string.
var plain = func() (is [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		is[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return is
}()

// appendText appends any text.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if !plain[text[i]] {
			return appendValue(b, text)
		}
	}
	return appendWord(b, text)
}

// appendWord appends a text that needs no escaping.
func appendWord(b []byte, word string) []byte { return append(append(append(b, '"'), word...), '"') }

// appendOptional appends a field that is omitted if it is empty. It must not be the first field.
func appendOptional(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(append(b, name...), text)
}

func appendHash(b []byte, h *common.Hash) []byte {
	return append(hex.AppendEncode(append(b, `"0x`...), h[:]), '"')
}

func appendNumber(b []byte, n number) []byte {
	return append(strconv.AppendUint(append(b, '"'), uint64(n), 10), '"')
}

func appendAmount(b []byte, a *amount) []byte {
	return append(appendDecimal(append(b, '"'), a), '"')
}

func (x *block) appendMembers(b []byte) []byte {
	b = appendNumber(append(b, `"blockNumber":`...), x.BlockNumber)
	b = strconv.AppendUint(append(b, `,"blockTimestamp":`...), x.BlockTimestamp, 10)
	if x.Milliseconds != 0 {
		b = strconv.AppendUint(append(b, `,"blockTimestampMilliseconds":`...), x.Milliseconds, 10)
	}
	return appendHash(append(b, `,"blockHash":`...), &x.BlockHash)
}

func (x *addressParty) appendMembers(b []byte) []byte {
	begin := len(b)
	b = appendOptional(b, `,"name":`, x.Name)
	b = appendOptional(b, `,"symbol":`, x.Symbol)
	if x.Decimals != nil {
		b = strconv.AppendUint(append(b, `,"decimals":`...), uint64(*x.Decimals), 10)
	}
	b = appendOptional(b, `,"logoUri":`, x.LogoURI)
	b = appendWord(append(b, `,"address":`...), x.Address)
	return append(b[:begin], b[begin+1:]...) // the first field has no comma
}

func (x *nativeTransaction) appendMembers(b []byte) []byte {
	b = x.block.appendMembers(b)
	if x.MinDelayExcess != nil {
		b = strconv.AppendUint(append(b, `,"blockMinDelayExcess":`...), *x.MinDelayExcess, 10)
	}
	b = appendNumber(append(b, `,"chainId":`...), x.ChainID)
	b = strconv.AppendUint(append(b, `,"blockIndex":`...), uint64(x.BlockIndex), 10)
	b = appendHash(append(b, `,"txHash":`...), &x.TxHash)
	b = appendWord(append(b, `,"txStatus":`...), x.TxStatus)
	b = strconv.AppendUint(append(b, `,"txType":`...), uint64(x.TxType), 10)
	b = appendNumber(append(b, `,"gasLimit":`...), x.GasLimit)
	b = appendNumber(append(b, `,"gasUsed":`...), x.GasUsed)
	b = appendAmount(append(b, `,"gasPrice":`...), &x.GasPrice)
	b = appendNumber(append(b, `,"nonce":`...), x.Nonce)
	b = appendObject(append(b, `,"from":`...), x.From)
	b = appendObject(append(b, `,"to":`...), x.To)
	b = appendObject(append(b, `,"method":`...), &x.Method)
	return appendAmount(append(b, `,"value":`...), &x.Value)
}

func (x *method) appendMembers(b []byte) []byte {
	b = appendWord(append(b, `"callType":`...), x.CallType)
	b = append(b, `,"methodHash":"`...)
	if len(x.MethodHash) > 0 {
		b = hex.AppendEncode(append(b, "0x"...), x.MethodHash)
	}
	b = append(b, '"')
	return appendOptional(b, `,"methodName":`, x.MethodName)
}

func (x *internalTransaction) appendMembers(b []byte) []byte {
	b = appendObject(append(b, `"from":`...), x.From)
	b = appendObject(append(b, `,"to":`...), x.To)
	b = appendWord(append(b, `,"internalTxType":`...), x.Type)
	b = appendAmount(append(b, `,"value":`...), &x.Value)
	b = strconv.AppendBool(append(b, `,"isReverted":`...), x.Reverted)
	b = appendNumber(append(b, `,"gasUsed":`...), x.GasUsed)
	return appendNumber(append(b, `,"gasLimit":`...), x.GasLimit)
}

func (x *listedInternal) appendMembers(b []byte) []byte {
	b = x.block.appendMembers(b)
	b = append(appendHash(append(b, `,"txHash":`...), &x.TxHash), ',')
	return x.internalTransaction.appendMembers(b)
}

func (x *nftMetadata) appendMembers(b []byte) []byte {
	b = appendText(append(b, `"indexStatus":`...), x.IndexStatus)
	if x.Updated != 0 {
		b = strconv.AppendInt(append(b, `,"metadataLastUpdatedTimestamp":`...), x.Updated, 10)
	}
	b = appendOptional(b, `,"name":`, x.Name)
	b = appendOptional(b, `,"symbol":`, x.Symbol)
	b = appendOptional(b, `,"imageUri":`, x.ImageURI)
	b = appendOptional(b, `,"description":`, x.Description)
	b = appendOptional(b, `,"animationUri":`, x.AnimationURI)
	b = appendOptional(b, `,"externalUrl":`, x.ExternalURL)
	b = appendOptional(b, `,"background":`, x.Background)
	b = appendOptional(b, `,"attributes":`, x.Attributes)
	if x.Decimals != nil {
		b = strconv.AppendUint(append(b, `,"decimals":`...), *x.Decimals, 10)
	}
	return appendOptional(b, `,"properties":`, x.Properties)
}

func (x *erc721Token) appendMembers(b []byte) []byte {
	b = appendWord(append(b, `"address":`...), x.Address)
	b = appendText(append(b, `,"name":`...), x.Name)
	b = appendText(append(b, `,"symbol":`...), x.Symbol)
	b = appendWord(append(b, `,"ercType":`...), x.ERCType)
	b = appendAmount(append(b, `,"tokenId":`...), &x.TokenID)
	b = appendText(append(b, `,"tokenUri":`...), x.TokenURI)
	b = appendObject(append(b, `,"metadata":`...), x.Metadata)
	return appendOptional(b, `,"ownerAddress":`, x.OwnerAddress)
}

func (x *erc1155Token) appendMembers(b []byte) []byte {
	b = appendWord(append(b, `"address":`...), x.Address)
	b = appendWord(append(b, `,"ercType":`...), x.ERCType)
	b = appendAmount(append(b, `,"tokenId":`...), &x.TokenID)
	b = appendText(append(b, `,"tokenUri":`...), x.TokenURI)
	return appendObject(append(b, `,"metadata":`...), x.Metadata)
}

func (x *erc1155Transfer) appendMembers(b []byte) []byte {
	b = appendObject(append(b, `"from":`...), x.From)
	b = appendObject(append(b, `,"to":`...), x.To)
	b = strconv.AppendUint(append(b, `,"logIndex":`...), uint64(x.LogIndex), 10)
	b = appendAmount(append(b, `,"value":`...), &x.Value)
	return appendObject(append(b, `,"erc1155Token":`...), &x.Token)
}

func (x *listedTransfer) appendMembers(b []byte) []byte {
	b = x.block.appendMembers(b)
	b = append(appendHash(append(b, `,"txHash":`...), &x.TxHash), ',')
	return x.erc1155Transfer.appendMembers(b)
}

func (x *erc20Token) appendMembers(b []byte) []byte {
	b = appendWord(append(b, `"address":`...), x.Address)
	b = appendText(append(b, `,"name":`...), x.Name)
	b = appendText(append(b, `,"symbol":`...), x.Symbol)
	b = strconv.AppendUint(append(b, `,"decimals":`...), uint64(x.Decimals), 10)
	b = appendOptional(b, `,"logoUri":`, x.LogoURI)
	return appendWord(append(b, `,"ercType":`...), x.ERCType)
}

func (x *erc20Transfer) appendMembers(b []byte) []byte {
	b = appendObject(append(b, `"from":`...), x.From)
	b = appendObject(append(b, `,"to":`...), x.To)
	b = strconv.AppendUint(append(b, `,"logIndex":`...), uint64(x.LogIndex), 10)
	b = appendAmount(append(b, `,"value":`...), &x.Value)
	return appendObject(append(b, `,"erc20Token":`...), &x.Token)
}

func (x *listedERC20) appendMembers(b []byte) []byte {
	b = x.block.appendMembers(b)
	b = append(appendHash(append(b, `,"txHash":`...), &x.TxHash), ',')
	return x.erc20Transfer.appendMembers(b)
}

func (x *erc721Transfer) appendMembers(b []byte) []byte {
	b = appendObject(append(b, `"from":`...), x.From)
	b = appendObject(append(b, `,"to":`...), x.To)
	b = strconv.AppendUint(append(b, `,"logIndex":`...), uint64(x.LogIndex), 10)
	return appendObject(append(b, `,"erc721Token":`...), &x.Token)
}

func (x *listedERC721) appendMembers(b []byte) []byte {
	b = x.block.appendMembers(b)
	b = append(appendHash(append(b, `,"txHash":`...), &x.TxHash), ',')
	return x.erc721Transfer.appendMembers(b)
}

// appendList appends a field with a list.
func appendList[T any, P interface {
	*T
	member
}](b []byte, name string, all []T) []byte {
	list := items[T, P]{len(all), func(i int, x *T) { *x = all[i] }}
	return list.appendTo(append(b, name...))
}

func (x *interaction) appendMembers(b []byte) []byte {
	b = appendObject(append(b, `"nativeTransaction":`...), &x.Native)
	b = appendList(b, `,"erc20Transfers":`, x.ERC20)
	b = appendList(b, `,"erc721Transfers":`, x.ERC721)
	b = appendList(b, `,"erc1155Transfers":`, x.ERC1155)
	return appendList(b, `,"internalTransactions":`, x.Internals)
}

func (x *erc1155Balance) appendMembers(b []byte) []byte {
	b = x.erc1155Token.appendMembers(b)
	b = appendNumber(append(b, `,"chainId":`...), x.ChainID)
	return appendAmount(append(b, `,"balance":`...), &x.Balance)
}

func (x *erc20Balance) appendMembers(b []byte) []byte {
	b = x.erc20Token.appendMembers(b)
	b = appendNumber(append(b, `,"chainId":`...), x.ChainID)
	b = appendAmount(append(b, `,"balance":`...), &x.Balance)
	b = appendWord(append(b, `,"balanceSource":`...), x.Source)
	b = appendOptional(b, `,"transferSum":`, x.TransferSum)
	return append(b, `,"tokenReputation":null`...)
}

func (x *erc721Balance) appendMembers(b []byte) []byte {
	b = x.erc721Token.appendMembers(b)
	return appendNumber(append(b, `,"chainId":`...), x.ChainID)
}

func (x *collectible) appendMembers(b []byte) []byte {
	if x.fungible.ERCType != "" {
		return x.fungible.appendMembers(b)
	}
	return x.unique.appendMembers(b)
}

func (x *contract) appendMembers(b []byte) []byte {
	begin := len(b)
	b = appendOptional(b, `,"name":`, x.Name)
	b = appendOptional(b, `,"description":`, x.Description)
	b = appendOptional(b, `,"officialSite":`, x.OfficialSite)
	b = appendOptional(b, `,"email":`, x.Email)
	if x.LogoAsset != nil {
		b = appendValue(append(b, `,"logoAsset":`...), x.LogoAsset)
	}
	if x.BannerAsset != nil {
		b = appendValue(append(b, `,"bannerAsset":`...), x.BannerAsset)
	}
	b = appendOptional(b, `,"color":`, x.Color)
	if len(x.ResourceLinks) > 0 {
		b = appendValue(append(b, `,"resourceLinks":`...), x.ResourceLinks)
	}
	if len(x.Tags) > 0 {
		b = appendValue(append(b, `,"tags":`...), x.Tags)
	}
	b = appendWord(append(b, `,"address":`...), x.Address)
	b = append(b[:begin], b[begin+1:]...) // the first field has no comma
	if x.Deployment != nil {
		b = appendObject(append(b, `,"deploymentDetails":`...), x.Deployment)
	}
	b = appendWord(append(b, `,"ercType":`...), x.ERCType)
	b = appendOptional(b, `,"symbol":`, x.Symbol)
	if x.Decimals != nil {
		b = strconv.AppendUint(append(b, `,"decimals":`...), uint64(*x.Decimals), 10)
	}
	return b
}

func (x *deployment) appendMembers(b []byte) []byte {
	b = appendHash(append(b, `"txHash":`...), &x.TxHash)
	b = appendWord(append(b, `,"deployerAddress":`...), x.DeployerAddress)
	return appendOptional(b, `,"deployerContractAddress":`, x.DeployerContractAddress)
}
