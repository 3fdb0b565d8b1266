package store

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence makes the kernel close a connection whose peer has not acknowledged data for deadTime.
func limitSilence(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadTime.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
