// Package client calls the signing operations of a quorate service: it gets unsigned Warp
// messages signed and signed ones verified. It imports nothing of the service, so that a relayer
// can use it alone.
//
// The client checks that a signed message is of the unsigned message that was asked for. It
// cannot verify the signature, because it does not know the validators. The destination verifies
// it in any case. To verify it before sending, get the validator set from a node you trust and
// call Signature.Verify of the message; [Client.Verify] asks the service to do that.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// maxAnswer limits the size of an answer, in bytes.
	maxAnswer = 32 << 20
	// attemptTimeout limits one request of the client's own http.Client. It exceeds the longest
	// time that a service can be configured to take.
	attemptTimeout = 5 * time.Minute
	// connectTimeout limits connecting, and then the TLS handshake.
	connectTimeout = 10 * time.Second
	// maxRetryAfter is the longest Retry-After that a call waits for.
	maxRetryAfter = time.Minute
	// defaultAttempts is the default of Options.Attempts.
	defaultAttempts = 5
)

// Options are the settings of a Client.
type Options struct {
	// URL is the base URL of the service, for example http://127.0.0.1:8080. It is required.
	URL string
	// Network is the network's name on the service: mainnet, fuji, or the one that its
	// configuration gives. It is required.
	Network string
	// APIKey is sent with each request; empty means none.
	APIKey string
	// HTTPClient sends the requests. Nil means an http.Client of the client's own, with a limit
	// of 5 minutes for each request. Redirects are not followed in either case.
	HTTPClient *http.Client
	// Attempts is the maximum number of times that a call sends its request; 0 means 5, and 1
	// means no repetition.
	Attempts int
}

// Client calls one network of a service. It is safe for concurrent use.
//
// A call repeats its request if the connection fails, after a pause that doubles from 0.25 s to
// 5 s, and if the service answers with status 429 or 503, after the answer's Retry-After. It does
// not repeat other failures. It fails at once if the Retry-After exceeds a minute or ends after
// the context's deadline. Requests to sign are idempotent. Without a deadline, a call with its
// repetitions may take minutes.
//
// Failures that the service reported are of type *[Error]. Unusable answers wrap [ErrBadAnswer].
// Other errors are those of the connection and of the context.
type Client struct {
	root     string // of the service, without a slash at its end
	base     string // root, the path of the signing operations, and the network
	network  string
	apiKey   string
	attempts int
	http     *http.Client
	own      bool // http was made here
}

// New returns a Client. It sends no request.
func New(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("URL of the service: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("URL of the service %q: want scheme, host and at most a path, for example http://127.0.0.1:8080", o.URL)
	}
	if o.Network == "" {
		return nil, errors.New("the network is missing; set Network, for example to fuji")
	}
	if o.Attempts < 0 {
		return nil, fmt.Errorf("%d attempts: want at least 1, or 0 for %d", o.Attempts, defaultAttempts)
	}
	root := strings.TrimRight(base.String(), "/")
	c := &Client{
		root:     root,
		base:     root + "/v1/signatureAggregator/" + url.PathEscape(o.Network),
		network:  o.Network,
		apiKey:   o.APIKey,
		attempts: cmp.Or(o.Attempts, defaultAttempts),
		own:      o.HTTPClient == nil,
	}
	if c.own {
		c.http = &http.Client{Timeout: attemptTimeout, Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout: connectTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
		}}
	} else {
		copied := *o.HTTPClient
		c.http = &copied
	}
	// A redirect could take the API key elsewhere, and would turn a POST into a GET.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// Close closes the idle connections of the client's own http.Client. It does nothing if
// Options.HTTPClient was set.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// call sends a request until it succeeds or may not be repeated, and decodes the answer, whose
// header it returns. body is nil for GET.
func (c *Client) call(ctx context.Context, path string, body, reply any) (header http.Header, err error) {
	err = c.exchange(ctx, path, body, "application/json", func(response *http.Response) error {
		content, err := read(response.Body)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, reply); err != nil {
			return badAnswer("%s with Content-Type %q is not the expected JSON: %v", response.Status, clip(response.Header.Get("Content-Type")), err)
		}
		header = response.Header
		return nil
	})
	return header, err
}

// exchange is call with a function that reads the answer of a success.
func (c *Client) exchange(ctx context.Context, path string, body any, accept string, success func(*http.Response) error) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
	}
	pauses := &backoff.ExponentialBackOff{InitialInterval: 250 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: 5 * time.Second}
	for attempt := 1; ; attempt++ {
		err := c.send(ctx, c.http, c.base+path, content, accept, success)
		if err == nil || attempt >= c.attempts || ctx.Err() != nil || !repeatable(err) {
			return err
		}
		pause := pauses.NextBackOff()
		if failed, ok := errors.AsType[*Error](err); ok && failed.RetryAfter > 0 {
			pause = failed.RetryAfter
		}
		if deadline, ok := ctx.Deadline(); pause > maxRetryAfter || ok && time.Until(deadline) < pause {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("waiting to repeat a request: %w; the request failed with: %w", context.Cause(ctx), err)
		}
	}
}

// send sends a request once.
func (c *Client) send(ctx context.Context, through *http.Client, url string, content []byte, accept string, success func(*http.Response) error) error {
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if content != nil {
		method, body = http.MethodPost, bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", accept)
	// Not sent. It lets net/http repeat a POST at once if the server has closed the idle connection.
	request.Header["Idempotency-Key"] = nil
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.apiKey != "" {
		request.Header.Set("X-Data-Api-Key", c.apiKey)
	}
	response, err := through.Do(request)
	if err != nil {
		return err // names the method and the URL
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusCreated {
		return success(response)
	}
	answer, err := read(response.Body)
	if err != nil {
		return err
	}
	return newError(response, answer)
}

// repeatable reports whether the same request may succeed soon after err, which may be nil.
func repeatable(err error) bool {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.Status == http.StatusTooManyRequests || failed.Status == http.StatusServiceUnavailable
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return !untrusted && !errors.Is(err, ErrBadAnswer)
}

// read reads the body of an answer up to maxAnswer.
func read(body io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if len(content) > maxAnswer {
		return nil, badAnswer("it exceeds %d bytes", maxAnswer)
	}
	return content, nil
}

func badAnswer(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBadAnswer}, args...)...)
}
