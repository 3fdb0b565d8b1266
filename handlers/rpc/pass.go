package rpc

import (
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
)

// Node is a way to the nodes for what is passed through unread.
type Node interface {
	Upstream
	// Direct readies a request for the node that is to be asked now.
	Direct(r *http.Request, path string)
}

// callTypes are the content types of calls of the Ethereum API.
var callTypes = []string{"application/json", "application/json-rpc", "application/jsonrequest"}

// passable says what is wrong with a request's form, as a node does (libevm, package
// rpc), with the status; 0 if nothing is.
func passable(r *http.Request) (status int, text string) {
	switch r.Method {
	case http.MethodPut, http.MethodDelete:
		return http.StatusMethodNotAllowed, "method not allowed"
	case http.MethodOptions:
		return 0, ""
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || !slices.Contains(callTypes, kind) {
		return http.StatusUnsupportedMediaType, "invalid content type, only application/json is supported"
	}
	return 0, ""
}

// Pass hands on what comes as it is, and the answer too: the Ethereum API of the
// C-Chain, single calls and batches.
func Pass(upstream Upstream, path string, limit int64, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.ContentLength == 0 && r.URL.RawQuery == "" {
			return // somebody looks whether anyone is there
		}
		if status, text := passable(r); status != 0 {
			http.Error(w, text, status)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
		if err != nil {
			http.Error(w, "content length too large", http.StatusRequestEntityTooLarge)
			return
		}
		answer, err := upstream.Forward(r.Context(), path, body, false)
		if err != nil {
			log.Warn("a call could not be forwarded", slog.String("path", path), slog.Any("error", err))
			http.Error(w, "the upstream node does not answer", http.StatusBadGateway)
			return
		}
		relay(w, answer)
	})
}

// ofSocket reports whether a header belongs to the opening of a WebSocket.
func ofSocket(name string) bool {
	return name == "Upgrade" || name == "Connection" || strings.HasPrefix(name, "Sec-Websocket-")
}

// PassConnection hands on WebSockets, at most so many at a time.
func PassConnection(n Node, path string, most int, log *slog.Logger) http.Handler {
	open := make(chan struct{}, most)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			for name := range r.Out.Header {
				if !ofSocket(name) { // cookies and keys are for us
					r.Out.Header.Del(name)
				}
			}
			n.Direct(r.Out, path)
		},
		ModifyResponse: func(r *http.Response) error {
			for name := range r.Header {
				if !ofSocket(name) {
					r.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			log.Warn("a connection could not be passed through", slog.String("path", path), slog.Any("error", err))
			http.Error(w, "the upstream node does not answer", http.StatusBadGateway)
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			w.Header().Set("Upgrade", "websocket")
			http.Error(w, "a WebSocket is wanted here", http.StatusUpgradeRequired)
			return
		}
		select {
		case open <- struct{}{}:
		default:
			http.Error(w, "too many connections", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-open }()
		proxy.ServeHTTP(w, r)
	})
}
