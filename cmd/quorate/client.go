package main

import "net/http"

// newHTTPClient makes a client whose connections end with
// CloseIdleConnections; the default one's would outlive the command.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
}
