package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// repeater sends one request again and again over many connections, from a single
// thread that waits for all of them at once (epoll): what it takes of the machine
// is taken from what is measured.
type repeater struct {
	poll    int
	lanes   []*lane
	request []byte
}

// lane is a connection and the request that is under way on it.
type lane struct {
	fd    int
	start time.Time // when it was sent, or due
	in    []byte
}

// laneBuffer bounds an answer, in bytes.
const laneBuffer = 64 << 10

func (p *process) newRepeater(network string, connections int, body []byte) (r *repeater, err error) {
	host := strings.TrimPrefix(p.base, "http://")
	address, err := net.ResolveTCPAddr("tcp4", host)
	if err != nil {
		return nil, err
	}
	r = &repeater{request: append(requestHead(host, network, len(body)), body...)}
	if r.poll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("setting up the load: %w", err)
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	for i := range connections {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("connecting: %w", err)
		}
		r.lanes = append(r.lanes, &lane{fd: fd, in: make([]byte, 0, laneBuffer)})
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: address.Port, Addr: [4]byte(address.IP.To4())}); err != nil {
			return nil, fmt.Errorf("connecting: %w", err)
		}
		if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
			return nil, fmt.Errorf("connecting: %w", err)
		}
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("connecting: %w", err)
		}
		if err := syscall.EpollCtl(r.poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}); err != nil {
			return nil, fmt.Errorf("setting up the load: %w", err)
		}
	}
	return r, nil
}

func requestHead(host, network string, length int) []byte {
	head := "POST /v1/signatureAggregator/" + network + "/aggregateSignatures HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\nContent-Length: "
	return append(strconv.AppendInt([]byte(head), int64(length), 10), "\r\n\r\n"...)
}

func (r *repeater) close() {
	for _, l := range r.lanes {
		_ = syscall.Close(l.fd)
	}
	_ = syscall.Close(r.poll)
}

// run sends count requests, one at a time on each connection: as fast as they are
// answered if rate is 0, else so many per second. Then times count from the moment
// at which a request was due, so that one slow answer counts for all that it held
// up.
func (r *repeater) run(ctx context.Context, count int, rate float64) ([]time.Duration, error) {
	times := make([]time.Duration, 0, count)
	idle := make([]*lane, len(r.lanes))
	copy(idle, r.lanes)
	events := make([]syscall.EpollEvent, len(r.lanes))
	began, sent := time.Now(), 0
	for len(times) < count {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		patience := time.Second
		for ; sent < count && len(idle) > 0; sent++ {
			start := time.Now()
			if rate > 0 {
				due := began.Add(time.Duration(float64(sent) / rate * float64(time.Second)))
				if wait := due.Sub(start); wait > 0 {
					patience = min(patience, wait)
					break
				}
				start = due
			}
			l := idle[len(idle)-1]
			idle = idle[:len(idle)-1]
			if err := l.send(r.request, start); err != nil {
				return nil, err
			}
		}
		n, err := wait(r.poll, events, patience)
		if err != nil {
			return nil, fmt.Errorf("waiting for answers: %w", err)
		}
		for _, e := range events[:n] {
			l := r.lanes[e.Fd]
			whole, err := l.receive()
			if err != nil {
				return nil, err
			}
			if !whole {
				continue
			}
			times = append(times, time.Since(l.start))
			if rate == 0 && sent < count { // at once, before others are looked at
				sent++
				if err := l.send(r.request, time.Now()); err != nil {
					return nil, err
				}
				continue
			}
			idle = append(idle, l)
		}
	}
	return times, nil
}

// wait is epoll_pwait2(2), whose patience is not bound to whole milliseconds.
func wait(poll int, events []syscall.EpollEvent, patience time.Duration) (int, error) {
	const epollPwait2 = 441
	timeout := syscall.NsecToTimespec(int64(patience))
	n, _, errno := syscall.Syscall6(epollPwait2, uintptr(poll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case syscall.EINTR:
		return 0, nil
	}
	return 0, errno
}

func (l *lane) send(request []byte, start time.Time) error {
	l.start, l.in = start, l.in[:0]
	n, err := syscall.Write(l.fd, request)
	if err == nil && n < len(request) {
		err = errors.New("the connection does not take a whole request")
	}
	if err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	return nil
}

// receive reads what has come and reports whether it is a whole answer. An answer
// that is no signed message is an error.
func (l *lane) receive() (whole bool, err error) {
	n, err := syscall.Read(l.fd, l.in[len(l.in):cap(l.in)])
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	if err == nil && n == 0 {
		err = errors.New("the connection was closed")
	}
	if err != nil {
		return false, fmt.Errorf("reading an answer: %w", err)
	}
	l.in = l.in[:len(l.in)+n]
	head, body, ok := bytes.Cut(l.in, []byte("\r\n\r\n"))
	if !ok {
		return false, nil
	}
	_, after, ok := bytes.Cut(head, []byte("\r\nContent-Length: "))
	if !ok {
		return false, fmt.Errorf("an answer without a length: %s", head)
	}
	digits, _, _ := bytes.Cut(after, []byte("\r\n"))
	length, err := strconv.Atoi(string(digits))
	if err != nil {
		return false, fmt.Errorf("reading an answer: %w", err)
	}
	if len(body) < length && len(l.in) < cap(l.in) {
		return false, nil
	}
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) || !bytes.HasPrefix(body, []byte(`{"signedMessage":"`)) || len(body) != length {
		return false, fmt.Errorf("%w: %s", errNotSigned, l.in)
	}
	return true, nil
}
