package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Port is a TCP port of 127.0.0.1 without a listener. Until it is closed no other call of FreePort returns it, in this
// process or another.
type Port struct {
	number int
	// claim is a UDP socket on the same number. Nothing else here uses UDP, and the system removes it with the process.
	claim net.PacketConn
}

// FreePort returns a port outside of the range that the system assigns by itself, so that it stays free until it is used
// and between uses.
func FreePort() (*Port, error) {
	for range 100 {
		p := &Port{number: 10_000 + rand.IntN(20_000)}
		var err error
		if p.claim, err = net.ListenPacket("udp", p.Address()); err != nil {
			continue
		}
		l, err := net.Listen("tcp", p.Address())
		if err == nil {
			return p, l.Close()
		}
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("finding a free port: most are in use")
}

// Number returns the number of the port.
func (p *Port) Number() int { return p.number }

// Address returns the address with the port.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Close gives the port to others.
func (p *Port) Close() error {
	if err := p.claim.Close(); err != nil {
		return fmt.Errorf("closing port %d: %w", p.number, err)
	}
	return nil
}
