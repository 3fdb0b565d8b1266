package main

import (
	"fmt"
	"net"
	"os"
)

// notify tells the service manager the state of the service, as in sd_notify(3): READY=1 or STOPPING=1. It does nothing
// if none started the process with NOTIFY_SOCKET.
func notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	// A name that begins with @ is in the abstract namespace; package net knows that form.
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notifying the service manager: %w", err)
	}
	defer func() { _ = socket.Close() }()
	if _, err := socket.Write([]byte(state)); err != nil {
		return fmt.Errorf("notifying the service manager: %w", err)
	}
	return nil
}
