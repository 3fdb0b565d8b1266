package metadata

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"quorate/internal/outbound"
)

// FetchOptions configures a Fetcher.
type FetchOptions struct {
	// Gateways are base URLs of IPFS gateways, for example https://ipfs.example. If one fails, the Fetcher tries the
	// next. Without gateways, IPFS documents are unreachable. Gateways may have private addresses, a user name and a
	// password.
	Gateways []string
	// AllowPrivate permits requests to non-public addresses. Use it on local networks only, never where untrusted
	// parties deploy contracts.
	AllowPrivate bool
	// Limit is the maximum size of a document in bytes; 0 means 1 MiB.
	Limit int64
	// Timeout limits the time to fetch one document, including redirects and gateways; 0 means 10 s. Each gateway gets
	// an equal part of the time that is left, so that one that does not answer leaves time for the next.
	Timeout time.Duration
}

// Fetcher fetches the documents that token URIs refer to. The URIs are untrusted: no request goes to a non-public
// address, whatever a name resolves to and wherever a redirect leads. Fetcher is safe for concurrent use.
type Fetcher struct {
	gateways []*url.URL
	limit    int64
	timeout  time.Duration
	public   *http.Client // for untrusted URLs
	gateway  *http.Client // for the operator's gateways
}

const (
	maxRedirects = 3
	// maxHeader is the maximum size of a response header in bytes.
	maxHeader = 64 << 10
	// maxHost is the maximum length of a host and its port in bytes. No name of the DNS is longer than 253 bytes.
	maxHost = 260
	// maxURL is the maximum length of a URL in bytes. Most servers refuse longer ones.
	maxURL = 8 << 10
)

// NewFetcher returns a Fetcher after checking the options. It sends no request.
func NewFetcher(o FetchOptions) (*Fetcher, error) {
	f := &Fetcher{limit: o.Limit, timeout: o.Timeout}
	if f.limit <= 0 {
		f.limit = 1 << 20
	}
	if f.timeout <= 0 {
		f.timeout = 10 * time.Second
	}
	for i, text := range o.Gateways {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			// The text may have a secret.
			return nil, fmt.Errorf("IPFS gateway %d is no URL such as https://ipfs.example", i+1)
		}
		f.gateways = append(f.gateways, u)
	}
	control := outbound.RefusePrivate
	if o.AllowPrivate {
		control = nil
	}
	f.public, f.gateway = newClient(control), newClient(nil)
	return f, nil
}

// Close closes idle connections.
func (f *Fetcher) Close() {
	f.public.CloseIdleConnections()
	f.gateway.CloseIdleConnections()
}

func newClient(control func(string, string, syscall.RawConn) error) *http.Client {
	return outbound.NewClient(&http.Transport{
		TLSHandshakeTimeout:    5 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           16,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}, 5*time.Second, control)
}

// failure is the reason why a document is unavailable.
type failure struct {
	status Status
	err    error
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v", f.status, f.err) }
func (f *failure) Unwrap() error { return f.err }

func failed(s Status, format string, args ...any) error {
	return &failure{s, fmt.Errorf(format, args...)}
}

// statusOf returns the status for a failed fetch.
func statusOf(err error) Status {
	var f *failure
	if errors.As(err, &f) {
		return f.status
	}
	return Unknown
}

// errUnconnected reports that the service can connect to no IPFS gateway.
var errUnconnected = errors.New("no IPFS gateway can be connected to")

// timedOut reports whether a server did not respond in time.
func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// gatewayHost is the name of the IPFS gateways as one host. No URL has it, because hosts have no slashes.
const gatewayHost = "ipfs://"

// hostOf returns the host that serves a URI, or an empty string if no request is needed.
func (f *Fetcher) hostOf(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return ""
	case strings.EqualFold(u.Scheme, "ipfs") && len(f.gateways) > 0:
		return gatewayHost
	case len(u.Host) > maxHost:
		return ""
	case strings.EqualFold(u.Scheme, "http"), strings.EqualFold(u.Scheme, "https"):
		return strings.Clone(strings.ToLower(u.Host)) // the URI may be long
	}
	return ""
}

// fetch fetches the document at a URI. It returns an error of type failure, or ctx's error.
func (f *Fetcher) fetch(ctx context.Context, uri string) ([]byte, error) {
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		return nil, failed(InvalidURI, "it is no URI")
	}
	timed, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var document []byte
	var err error
	switch strings.ToLower(scheme) {
	case "data":
		return f.inline(rest)
	case "http", "https":
		document, err = f.get(timed, uri, nil)
	case "ipfs":
		document, err = f.fromIPFS(timed, uri)
	default:
		return nil, failed(InvalidScheme, "scheme %.20q", scheme)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return document, err
}

// inline decodes a data: URI (RFC 2397).
func (f *Fetcher) inline(rest string) ([]byte, error) {
	kind, data, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, failed(InvalidURI, "no comma in a data: URI")
	}
	if int64(len(data)) > 4*f.limit {
		return nil, failed(TooLarge, "%d bytes in a data: URI", len(data))
	}
	var document []byte
	if unescaped, err := url.PathUnescape(data); err == nil {
		data = unescaped
	} // unescaped percent signs, as some contracts write
	if strings.HasSuffix(strings.ToLower(strings.TrimSpace(kind)), ";base64") {
		text := strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", " ", "").Replace(data)
		var err error
		if document, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=")); err != nil {
			return nil, failed(InvalidURI, "base64: %w", err)
		}
	} else {
		document = []byte(data)
	}
	if int64(len(document)) > f.limit {
		return nil, failed(TooLarge, "%d bytes in a data: URI", len(document))
	}
	return document, nil
}

// fromIPFS requests ipfs://CID/path from the gateways, one after another. ctx has a deadline. If all fail, fromIPFS returns
// errUnconnected if it could connect to none, else a timeout if there was one.
func (f *Fetcher) fromIPFS(ctx context.Context, uri string) ([]byte, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, failed(InvalidURI, "it is no URI")
	}
	path := strings.TrimPrefix(u.Host+u.Path, "ipfs/") // ipfs://ipfs/CID is common
	segments := strings.Split(path, "/")
	if u.Opaque != "" || segments[0] == "" || slices.Contains(segments, "..") || slices.Contains(segments, ".") || strings.Contains(path, `\`) {
		return nil, failed(InvalidURI, "it names no document of IPFS")
	}
	if len(f.gateways) == 0 {
		return nil, failed(Unreachable, "no IPFS gateway is configured")
	}
	var reached, unreached error // of gateways that could be connected to, and of others
	deadline, _ := ctx.Deadline()
	for i, gateway := range f.gateways {
		// The path is unescaped once. It must not be unescaped again.
		at := *gateway
		at.Path, at.RawPath = documents(gateway)+path, ""
		part, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(f.gateways)-i))
		var connected atomic.Bool // stays true if the gateway redirects to a host that cannot be connected to
		part = httptrace.WithClientTrace(part, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
		document, err := f.get(part, at.String(), gateway)
		cancel()
		switch status := statusOf(err); {
		case err == nil || status == TooLarge:
			return document, err
		case status == Unreachable && !connected.Load():
			unreached = err
		case !timedOut(reached):
			reached = err
		}
	}
	if reached == nil {
		return nil, failed(Unreachable, "%w: %w", errUnconnected, unreached)
	}
	return nil, reached
}

// documents returns the path of a gateway below which it serves documents.
func documents(gateway *url.URL) string { return strings.TrimSuffix(gateway.Path, "/") + "/ipfs/" }

// get fetches a document. It follows redirects itself, because each target must pass the same checks. through is the
// gateway, nil if none is used.
func (f *Fetcher) get(ctx context.Context, text string, through *url.URL) ([]byte, error) {
	for range maxRedirects + 1 {
		if len(text) > maxURL {
			return nil, failed(InvalidURI, "it is a URL of %d bytes", len(text))
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || len(u.Host) > maxHost || u.Scheme != "http" && u.Scheme != "https" {
			return nil, failed(InvalidURI, "it is no URL")
		}
		client := f.public
		u.User, u.Fragment = nil, ""
		// A gateway may have a private address and need a password. Allow only its documents there.
		if through != nil && u.Scheme == through.Scheme && u.Host == through.Host && strings.HasPrefix(u.Path, documents(through)) && !strings.Contains(u.Path, "/..") {
			client, u.User = f.gateway, through.User
		}
		document, next, err := f.once(ctx, client, u)
		if err != nil || next == "" {
			return document, err
		}
		text = next
	}
	return nil, failed(Unreachable, "more than %d redirects", maxRedirects)
}

// once sends one request. It returns a document or a redirect target. Errors do not contain the URL, because that of a
// gateway may have secrets.
func (f *Fetcher) once(ctx context.Context, client *http.Client, u *url.URL) (document []byte, next string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, "", failed(InvalidURI, "it is no URL")
	}
	request.Header.Set("Accept", "application/json, */*;q=0.5")
	request.Header.Set("User-Agent", "quorate")
	answer, err := client.Do(request)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, "", failed(Unreachable, "asking %s: %w", u.Host, err)
	}
	defer func() { _ = answer.Body.Close() }()
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests:
		return nil, "", failed(Throttled, "%s refuses for a while", u.Host)
	case code >= 300 && code < 400:
		to, err := answer.Location()
		if err != nil {
			return nil, "", failed(Unreachable, "%s redirects to nowhere", u.Host)
		}
		return nil, to.String(), nil
	case code != http.StatusOK:
		return nil, "", failed(Unreachable, "%s answers with status %d", u.Host, code)
	case answer.ContentLength > f.limit:
		return nil, "", failed(TooLarge, "%s has %d bytes", u.Host, answer.ContentLength)
	}
	document, err = io.ReadAll(io.LimitReader(answer.Body, f.limit+1))
	switch {
	case int64(len(document)) > f.limit:
		return nil, "", failed(TooLarge, "%s has more than %d bytes", u.Host, f.limit)
	case err != nil:
		return nil, "", failed(Unreachable, "reading from %s: %w", u.Host, err)
	}
	return document, "", nil
}
