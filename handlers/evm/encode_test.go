package evm

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/ava-labs/libevm/common"

	"quorate/handlers/reply"
)

// TestEncode checks that what writes itself does as encoding/json does, with all that
// words and numbers can be.
func TestEncode(t *testing.T) {
	texts := []string{
		"", "plain", `"quoted\`, "<a href='x'>&amp;</a>", "tab\tand\nline\r\b\f\x00\x1f\x7f", "é ü 漢 😀", "\u2028 and \u2029", "not \xff UTF-8 \xc3",
		"data:application/json;utf8,{\"a\":[1]}",
	}
	for _, text := range texts {
		for _, n := range []uint64{0, 1, math.MaxUint64} {
			requireAsStandard(t, text, n)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("text", uint64(7))
	f.Add("\xe2\x80\xa8<", uint64(1<<63))
	f.Fuzz(func(t *testing.T, text string, n uint64) { requireAsStandard(t, text, n) })
}

// requireAsStandard fills what writes itself with a text and a number, and has it full,
// and with every other member empty.
func requireAsStandard(t *testing.T, text string, n uint64) {
	t.Helper()
	for _, blank := range []func() member{
		func() member { return new(nativeTransaction) },
		func() member { return new(listedInternal) },
		func() member { return new(listedTransfer) },
		func() member { return new(listedERC20) },
		func() member { return new(listedERC721) },
		func() member { return new(interaction) },
		func() member { return new(erc1155Balance) },
		func() member { return new(erc20Balance) },
		func() member { return new(erc721Balance) },
		func() member { return new(contract) },
		func() member { return new(erc721Token) },
		func() member { return new(erc1155Token) },
	} {
		for skip := range 3 {
			x, left := blank(), skip
			fill(t, reflect.ValueOf(x).Elem(), text, n, func() bool {
				left++
				return skip == 0 || left%(skip+1) != 0
			})
			want, err := json.Marshal(x)
			require.NoError(t, err)
			require.Equal(t, "before"+string(want), string(appendObject([]byte("before"), x)), "%T", x)
		}
	}
	for many := range 3 {
		all := make([]method, many)
		for i := range all {
			all[i] = method{CallType: "CALL", MethodName: text}
		}
		item := func(i int, x *method) { *x = all[i] }
		shown := pageOf("transactions", many, item)
		shown.next = text
		requireAppends(t, shown, struct {
			NextPageToken string   `json:"nextPageToken,omitempty"`
			Transactions  []method `json:"transactions"`
		}{text, all})
	}
	native := nativeBalance{Name: text, Symbol: text}
	requireAppends(t, &balancePage[erc1155Balance, *erc1155Balance]{next: text, native: native, name: "erc1155TokenBalances"}, struct {
		NextPageToken string           `json:"nextPageToken,omitempty"`
		Native        nativeBalance    `json:"nativeTokenBalance"`
		Tokens        []erc1155Balance `json:"erc1155TokenBalances"`
	}{text, native, []erc1155Balance{}})
}

func requireAppends(t *testing.T, got reply.Appender, want any) {
	t.Helper()
	content, err := json.Marshal(want)
	require.NoError(t, err)
	require.Equal(t, string(content), string(got.AppendJSON(nil)))
}

// always are the types of members that are never left out.
var always = map[reflect.Type]bool{reflect.TypeFor[*addressParty](): true, reflect.TypeFor[*nftMetadata](): true}

// checked are members that hold addresses, hashes and fixed words alone.
var checked = map[string]bool{
	"Address": true, "OwnerAddress": true, "DeployerAddress": true, "DeployerContractAddress": true,
	"TxStatus": true, "CallType": true, "Type": true, "ERCType": true, "Source": true,
}

// fill sets what a value has in it, as far as wanted says so. Slices are made in any
// case: they have two members, or none.
func fill(t *testing.T, v reflect.Value, text string, n uint64, wanted func() bool) {
	t.Helper()
	switch at := v.Addr().Interface().(type) {
	case *amount:
		*at = amount(*new(uint256.Int).Mul(uint256.NewInt(n), uint256.NewInt(1e18+n)))
		return
	case *common.Hash:
		*at = common.BytesToHash([]byte(text))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field, about := v.Field(i), v.Type().Field(i)
			if !about.IsExported() && !about.Anonymous {
				continue // it is not encoded
			}
			if about.Type.Kind() == reflect.String && checked[about.Name] {
				field.SetString("0x00000000000000000000000000000000000A11cE")
				continue
			}
			if about.Anonymous {
				// Its members can be set, itself it cannot.
				field = reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
			} else if about.Type.Kind() != reflect.Struct && about.Type.Kind() != reflect.Slice && !always[about.Type] && !wanted() {
				continue
			}
			fill(t, field, text, n, wanted)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 2))
		for wanted() && v.Len() < 2 {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			fill(t, v.Index(v.Len()-1), text, n, wanted)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), text, n, wanted)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(n%2 == 1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(n & (1<<v.Type().Bits() - 1))
	case reflect.Int64:
		v.SetInt(int64(n))
	default:
		t.Fatalf("a member is %s", v.Type())
	}
}

// TestDistinct has tokens in and out of order, and some of them several times.
func TestDistinct(t *testing.T) {
	token := func(contract byte, id uint64) nft {
		return nft{contract: common.Address{contract}, id: *uint256.NewInt(id)}
	}
	for name, tokens := range map[string][]nft{
		"none":          nil,
		"one":           {token(1, 1)},
		"ascending":     {token(1, 1), token(1, 2), token(2, 1)},
		"descending":    {token(2, 1), token(1, 2), token(1, 1)},
		"twice":         {token(1, 1), token(1, 1), token(1, 2)},
		"again later":   {token(1, 1), token(1, 2), token(1, 1), token(3, 0)},
		"by collection": {token(1, 9), token(2, 1), token(1, 9)},
	} {
		once, places := distinct(tokens)
		seen := make(map[nft]bool)
		for _, one := range once {
			require.False(t, seen[one], "%s: %v is there twice", name, one)
			seen[one] = true
		}
		for i, one := range tokens {
			place := i
			if places != nil {
				place = places[one]
			}
			require.Equal(t, one, once[place], name)
		}
	}
}
