package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holiman/uint256"
)

// Document is the metadata of a token (ERC-721, ERC-1155 and extensions of marketplaces). Missing and oversized fields
// are empty.
type Document struct {
	Name, Symbol, Description        string
	Image, AnimationURL, ExternalURL string
	BackgroundColor                  string
	// Attributes and Properties are JSON texts.
	Attributes, Properties string
	// Decimals is nil if the document has none.
	Decimals *uint64
}

// Maximum lengths of fields, in bytes. Some documents embed images.
const (
	maxName        = 1 << 10
	maxColor       = 64
	maxDescription = 16 << 10
	maxLink        = 64 << 10
	maxJSON        = 64 << 10
	maxDecimals    = 255
)

// parse decodes a document. Its errors are of type failure.
func parse(b []byte) (Document, error) {
	b = bytes.TrimPrefix(bytes.TrimSpace(b), []byte("\xef\xbb\xbf"))
	if !json.Valid(b) {
		return Document{}, failed(InvalidJSON, "it is no JSON")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil || members == nil {
		return Document{}, failed(Invalid, "it is no JSON object")
	}
	d := Document{
		Name:            text(members["name"], maxName),
		Symbol:          text(members["symbol"], maxName),
		Description:     text(members["description"], maxDescription),
		Image:           text(members["image"], maxLink),
		AnimationURL:    text(members["animation_url"], maxLink),
		ExternalURL:     text(members["external_url"], maxLink),
		BackgroundColor: text(members["background_color"], maxColor),
		Attributes:      source(members["attributes"], '['),
		Properties:      source(members["properties"], '{'),
	}
	if d.Image == "" {
		d.Image = text(members["image_url"], maxLink)
	}
	var decimals uint64
	if raw := members["decimals"]; raw != nil && json.Unmarshal(raw, &decimals) == nil && decimals <= maxDecimals && string(raw) != "null" {
		d.Decimals = &decimals
	}
	return d, nil
}

// text returns a string field, or an empty string if it has another type or is too long.
func text(raw json.RawMessage, limit int) string {
	var s string
	if raw == nil || json.Unmarshal(raw, &s) != nil || len(s) > limit {
		return ""
	}
	return s
}

// source returns a field as JSON text if it begins with the given byte.
func source(raw json.RawMessage, begin byte) string {
	var compact bytes.Buffer
	if len(raw) == 0 || raw[0] != begin || json.Compact(&compact, raw) != nil || compact.Len() > maxJSON {
		return ""
	}
	return compact.String()
}

// forToken substitutes the token ID in the URI of its contract (ERC-1155).
func forToken(uri string, id *uint256.Int) string {
	return strings.ReplaceAll(uri, "{id}", fmt.Sprintf("%064x", id.Bytes32()))
}
