package socket

import (
	"bufio"
	"net"
	"net/http"
)

// Taken stores the connection that is hijacked from a server, so that it can be closed below a protocol that waits for
// its client.
type Taken struct {
	http.ResponseWriter
	// Conn is nil until the connection is hijacked.
	Conn net.Conn
}

// Hijack implements http.Hijacker.
func (t *Taken) Hijack() (conn net.Conn, buffered *bufio.ReadWriter, err error) {
	t.Conn, buffered, err = http.NewResponseController(t.ResponseWriter).Hijack()
	return t.Conn, buffered, err
}
