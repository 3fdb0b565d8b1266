package config

import (
	"regexp"

	"quorate/internal/node"
)

// The parts of a URL extend to the next blank, without punctuation at their end: URLs may contain quotes, commas and
// brackets.
var (
	// ambiguous has an @ behind what may end the host: the host or a secret may be on either side of it.
	ambiguous = regexp.MustCompile(`://[^/?#\s]*[/?#]\S*@\S*?([\]"',:;.)]*(?:\s|$))`)
	userInfo  = regexp.MustCompile(`://\S*@`)
	urlPath   = regexp.MustCompile(`(://[^/?#\s]+)(/[^?#\s]*?)([\]"',:;.)]*(?:[?#\s]|$))`)
	query     = regexp.MustCompile(`(://[^?#\s]*[?#])\S*?([\]"',:;.)]*(?:\s|$))`)
	excerpt   = regexp.MustCompile("!!(\\w+) `[^`]*`")
)

// redact replaces what may be a secret in a text: user information, path, query and fragment of URLs, and the values
// that errors about YAML quote. Parts of paths that node.MaskPath knows stay.
func redact(text string) string {
	text = ambiguous.ReplaceAllString(text, "://***$1")
	text = userInfo.ReplaceAllString(text, "://***@")
	text = query.ReplaceAllString(text, "$1***$2")
	text = urlPath.ReplaceAllStringFunc(text, func(found string) string {
		parts := urlPath.FindStringSubmatch(found)
		return parts[1] + node.MaskPath(parts[2]) + parts[3]
	})
	return excerpt.ReplaceAllString(text, "!!$1")
}

// redactedError is an error whose text has no secrets.
type redactedError struct{ error }

func (e redactedError) Error() string { return redact(e.error.Error()) }

func (e redactedError) Unwrap() error { return e.error }

// Redacted returns err with a text that has no secrets.
func Redacted(err error) error { return redactedError{err} }
