package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// newHTTPClient returns a client whose connections CloseIdleConnections closes. Connections
// of http.DefaultClient would outlive the command.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
}

// askServer sends a request without a body to the private address of a service. The caller
// closes the body of the response.
func askServer(ctx context.Context, client *http.Client, method, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err == nil && (request.URL.Scheme != "http" && request.URL.Scheme != "https" || request.URL.Host == "") {
		err = errors.New("not a URL that begins with http:// or https://")
	}
	if err != nil {
		return nil, usage(fmt.Errorf("--server: %w", err), "Give the URL of the private address, for example http://127.0.0.1:8081")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, &exitError{code: exitFailed, err: err, hint: "Check that the service runs and that --server is its private address."}
	}
	return response, nil
}
