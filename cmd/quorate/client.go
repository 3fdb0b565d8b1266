package main

import "net/http"

// newHTTPClient returns a client whose connections CloseIdleConnections closes. Connections
// of http.DefaultClient would outlive the command.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
}
