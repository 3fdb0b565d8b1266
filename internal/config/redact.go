package config

import (
	"regexp"

	"quorate/internal/node"
)

var (
	userInfo = regexp.MustCompile(`://[^/?#\s"']*@`)
	urlPath  = regexp.MustCompile(`(://[^/?#\s"',\]]+)(/[^?#\s"',\]]*)`)
	query    = regexp.MustCompile(`(://[^?\s"']*)\?[^\s"',\]]*`)
	excerpt  = regexp.MustCompile("!!(\\w+) `[^`]*`")
)

// redact takes what may be a secret out of a text: what URLs have before the host, in
// long parts of the path and as a query, and the values that errors about YAML quote.
func redact(text string) string {
	text = userInfo.ReplaceAllString(text, "://***@")
	text = query.ReplaceAllString(text, "$1?***")
	text = urlPath.ReplaceAllStringFunc(text, func(found string) string {
		parts := urlPath.FindStringSubmatch(found)
		return parts[1] + node.MaskPath(parts[2])
	})
	return excerpt.ReplaceAllString(text, "!!$1")
}

// redactedError is an error whose text has no secrets.
type redactedError struct{ error }

func (e redactedError) Error() string { return redact(e.error.Error()) }

func (e redactedError) Unwrap() error { return e.error }

// Redacted is err with a text that has no secrets.
func Redacted(err error) error { return redactedError{err} }
