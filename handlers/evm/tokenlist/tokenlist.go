// Package tokenlist reads the operator's token details (logos, descriptions and links) from files in the Token Lists
// format (https://tokenlists.org, schema https://uniswap.org/tokenlist.schema.json).
package tokenlist

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ava-labs/libevm/common"
)

const (
	// maxFile is the maximum size of a list, in bytes.
	maxFile = 32 << 20
	// maxTokens is the maximum number of tokens in a list by the schema.
	maxTokens = 10_000
	// maxText is the maximum length of texts without a limit in the schema, and of strings in extensions: the schema's
	// 42 characters are too few for a link.
	maxText = 2048
)

// Token holds the details of a token.
type Token struct {
	Name, Symbol string
	// LogoURI, Description, Email, Color and BannerURI are empty if the list has none. All but LogoURI are extensions
	// of these names.
	LogoURI, Description, Email, Color, BannerURI string
	// Links are sorted by type.
	Links []Link
	// Tags are identifiers.
	Tags []string
}

// Link is a link to a site about a token.
type Link struct{ Type, URL string }

// linkTypes maps extensions, in lower case, to types of links.
var linkTypes = map[string]string{
	"blog": "Blog", "coingecko": "CoinGecko", "coinmarketcap": "CoinMarketCap", "discord": "Discord", "documentation": "Documentation",
	"facebook": "Facebook", "github": "Github", "instagram": "Instagram", "linkedin": "LinkedIn", "medium": "Medium", "reddit": "Reddit",
	"support": "Support", "telegram": "Telegram", "tiktok": "TikTok", "twitter": "Twitter", "website": "Website", "whitepaper": "Whitepaper",
	"youtube": "Youtube",
}

// Website is the type of the link to a token's own site.
const Website = "Website"

type key struct {
	chainID uint64
	address common.Address
}

// Lists holds the tokens of several lists. It is safe for concurrent use; nil Lists have no tokens.
type Lists struct{ tokens map[key]*Token }

// Open reads lists from files. If several have a token, the first one takes precedence.
func Open(paths ...string) (*Lists, error) {
	l := &Lists{tokens: make(map[key]*Token)}
	for _, path := range paths {
		if err := l.open(path); err != nil {
			return nil, fmt.Errorf("token list %s: %w", path, err)
		}
	}
	return l, nil
}

// Token returns the details of a token, nil if no list has it.
func (l *Lists) Token(chainID uint64, address common.Address) *Token {
	if l == nil {
		return nil
	}
	return l.tokens[key{chainID, address}]
}

func (l *Lists) open(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return err
	}
	if len(content) > maxFile {
		return fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return l.add(content)
}

// document is the JSON form of a list. Nil pointers mark missing fields.
type document struct {
	Name      string     `json:"name"`
	Timestamp *time.Time `json:"timestamp"`
	Version   *struct {
		Major *uint64 `json:"major"`
		Minor *uint64 `json:"minor"`
		Patch *uint64 `json:"patch"`
	} `json:"version"`
	Tokens   []entry          `json:"tokens"`
	TokenMap map[string]entry `json:"tokenMap"`
}

type entry struct {
	ChainID    *uint64                    `json:"chainId"`
	Address    string                     `json:"address"`
	Decimals   *uint8                     `json:"decimals"`
	Name       *string                    `json:"name"`
	Symbol     *string                    `json:"symbol"`
	LogoURI    string                     `json:"logoURI"`
	Tags       []string                   `json:"tags"`
	Extensions map[string]json.RawMessage `json:"extensions"`
}

func (l *Lists) add(content []byte) error {
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		return err
	}
	switch v := d.Version; {
	case d.Name == "":
		return errors.New("name is missing")
	case d.Timestamp == nil:
		return errors.New("timestamp is missing")
	case v == nil || v.Major == nil || v.Minor == nil || v.Patch == nil:
		return errors.New("version is missing, or its major, minor or patch")
	case len(d.Tokens) == 0:
		return errors.New("tokens is missing or empty")
	case len(d.Tokens) > maxTokens || len(d.TokenMap) > maxTokens:
		return fmt.Errorf("there are more than %d tokens", maxTokens)
	}
	for i := range d.Tokens {
		if err := l.addEntry(&d.Tokens[i]); err != nil {
			return fmt.Errorf("tokens[%d]: %w", i, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.TokenMap)) {
		e := d.TokenMap[name]
		if err := l.addEntry(&e); err != nil {
			return fmt.Errorf("tokenMap[%.80q]: %w", name, err)
		}
	}
	return nil
}

var (
	ethereumAddress = regexp.MustCompile(`^0x[a-fA-F0-9]{40}$`)
	// otherAddress matches addresses of chains that are not EVM chains, which lists may contain.
	otherAddress = regexp.MustCompile(`^[1-9A-HJ-NP-Za-km-z]{32,44}$`)
	tag          = regexp.MustCompile(`^\w{1,10}$`)
	blank        = regexp.MustCompile(`\s`)
	control      = regexp.MustCompile(`[^\P{Cc}]`)
)

func (l *Lists) addEntry(e *entry) error {
	switch {
	case e.ChainID == nil || *e.ChainID == 0:
		return errors.New("chainId is missing or 0")
	case e.Decimals == nil:
		return errors.New("decimals is missing")
	case e.Name == nil || utf8.RuneCountInString(*e.Name) > 60 || control.MatchString(*e.Name):
		return errors.New("name is missing, longer than 60 characters or has control characters")
	case e.Symbol == nil || utf8.RuneCountInString(*e.Symbol) > 20 || blank.MatchString(*e.Symbol):
		return errors.New("symbol is missing, longer than 20 characters or has blanks")
	case !ethereumAddress.MatchString(e.Address) && !otherAddress.MatchString(e.Address):
		return fmt.Errorf("address %.80q is none", e.Address)
	case e.LogoURI != "" && !uri(e.LogoURI):
		return errors.New("logoURI is no URI")
	case len(e.Tags) > 10:
		return errors.New("there are more than 10 tags")
	case len(e.Extensions) > 10:
		return errors.New("there are more than 10 extensions")
	}
	for _, t := range e.Tags {
		if !tag.MatchString(t) {
			return fmt.Errorf("tag %.80q is none", t)
		}
	}
	t := &Token{Name: *e.Name, Symbol: *e.Symbol, LogoURI: e.LogoURI, Tags: e.Tags}
	for _, name := range slices.Sorted(maps.Keys(e.Extensions)) {
		if err := t.extend(strings.ToLower(name), e.Extensions[name]); err != nil {
			return fmt.Errorf("extension %.80q: %w", name, err)
		}
	}
	slices.SortFunc(t.Links, func(a, b Link) int { return strings.Compare(a.Type, b.Type) })
	t.Links = slices.CompactFunc(t.Links, func(a, b Link) bool { return a.Type == b.Type })
	if !ethereumAddress.MatchString(e.Address) {
		return nil
	}
	k := key{*e.ChainID, common.HexToAddress(e.Address)}
	if _, taken := l.tokens[k]; !taken {
		l.tokens[k] = t
	}
	return nil
}

// extend applies an extension. It ignores unknown names, and values that are not strings.
func (t *Token) extend(name string, value json.RawMessage) error {
	if value[0] != '"' {
		return nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil || text == "" {
		return err
	}
	if len(text) > maxText {
		return fmt.Errorf("it is longer than %d bytes", maxText)
	}
	switch name {
	case "description":
		t.Description = text
	case "email":
		t.Email = text
	case "color":
		t.Color = text
	case "banneruri", "banner":
		if !uri(text) {
			return errors.New("it is no URI")
		}
		t.BannerURI = text
	default:
		kind, ok := linkTypes[name]
		if !ok {
			return nil
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return errors.New("it is no link to a site; write one as https://example.org")
		}
		t.Links = append(t.Links, Link{Type: kind, URL: text})
	}
	return nil
}

// uri reports whether text is an absolute URI that is safe to link: no scheme that a browser executes.
func uri(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxText && u.Scheme != "data" {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "https", "http", "ipfs", "ipns", "ar", "data":
		return true
	}
	return false
}
