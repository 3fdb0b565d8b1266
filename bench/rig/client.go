package rig

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Conn asks over HTTP by as little as HTTP takes, so that whoever asks leaves the
// processor to what is measured. It belongs to one goroutine, and is of no use after an
// error.
type Conn struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

// Dial connects.
func Dial(address string) (*Conn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// Get asks for a path and drops the answer, which must be a success.
func (c *Conn) Get(path string) error {
	c.out = append(append(append(c.out[:0], "GET "...), path...), " HTTP/1.1\r\nHost: bench\r\n\r\n"...)
	_, err := c.Write(c.out)
	if err == nil {
		err = c.answered()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// answered reads an answer to its end.
func (c *Conn) answered() error {
	line, err := c.line()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(line), "HTTP/1.1 200 ") {
		return fmt.Errorf("answered %q", line)
	}
	length, chunked := 0, false
	for {
		if line, err = c.line(); err != nil {
			return err
		}
		if len(line) == 0 {
			break
		}
		if size, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			if length, err = strconv.Atoi(size); err != nil {
				return err
			}
		}
		chunked = chunked || string(line) == "Transfer-Encoding: chunked"
	}
	if !chunked {
		_, err = c.in.Discard(length)
		return err
	}
	for {
		if line, err = c.line(); err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return err
		}
		if _, err = c.in.Discard(int(size) + len("\r\n")); err != nil || size == 0 {
			return err
		}
	}
}

// line is one without its end.
func (c *Conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	return line[:max(len(line)-2, 0)], nil
}
