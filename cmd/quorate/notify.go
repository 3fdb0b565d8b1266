package main

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// reloading returns the state of a service that reads its configuration again. The manager orders it by the time.
func reloading() string {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // never fails with this clock
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}

// notify tells the service manager the state of the service, as in sd_notify(3): for example READY=1 or STOPPING=1. It does nothing
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
