package p2p

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/DataDog/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ava-labs/avalanchego/proto/pb/p2p"
	"github.com/ava-labs/avalanchego/utils/compression"
	"github.com/ava-labs/avalanchego/utils/constants"
)

const (
	// maxMessage bounds a message in bytes, both ways and also decompressed.
	maxMessage = constants.DefaultMaxMessageSize
	// frameHeader is the big-endian length before each message, in bytes.
	frameHeader = 4
	// maxFields bounds the fields of what a message has. Lists of containers are the longest:
	// nodes send at most 2,000 (avalanchego, config, bootstrap-ancestors-max-containers-sent).
	maxFields = 16 << 10
)

// Fields of p2p.Message (avalanchego, proto/p2p/p2p.proto).
const (
	fieldZstd             protowire.Number = 2
	fieldPing             protowire.Number = 11
	fieldPong             protowire.Number = 12
	fieldHandshake        protowire.Number = 13
	fieldPeerList         protowire.Number = 14
	fieldAcceptedFrontier protowire.Number = 20
	fieldAccepted         protowire.Number = 22
	fieldAncestors        protowire.Number = 24
	fieldPut              protowire.Number = 26
	fieldAppResponse      protowire.Number = 31
	fieldAppError         protowire.Number = 34
	fieldGetPeerList      protowire.Number = 35
)

var (
	errNotAMessage = errors.New("not a message of the protocol")
	errTooLarge    = errors.New("message is too large")
)

// frame encodes a message with its length in front.
func frame(m *p2p.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, frameHeader, 256), m)
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	size := len(b) - frameHeader
	if size > maxMessage {
		return nil, fmt.Errorf("%w: %d bytes", errTooLarge, size)
	}
	binary.BigEndian.PutUint32(b, uint32(size))
	return b, nil
}

// handled reports whether the service handles messages of this kind. All others are about
// consensus or are requests to a chain.
func handled(field protowire.Number) bool {
	switch field {
	case fieldZstd, fieldPing, fieldPong, fieldHandshake, fieldPeerList, fieldAcceptedFrontier, fieldAccepted, fieldAncestors, fieldPut,
		fieldAppResponse, fieldAppError, fieldGetPeerList:
		return true
	}
	return false
}

// outermost returns the kind of a message and its content. b is the beginning of the message,
// which has size bytes. It returns false unless the message has exactly one field, as messages
// of the library do.
func outermost(b []byte, size int) (protowire.Number, []byte, bool) {
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 || kind != protowire.BytesType {
		return 0, nil, false
	}
	length, m := protowire.ConsumeVarint(b[n:])
	if m < 0 || length != uint64(size-n-m) {
		return 0, nil, false
	}
	return field, b[n+m:], true
}

// crowded reports whether a message has more than maxFields fields in its fields. A parsed list
// takes up to a hundred times the bytes of its encoding, and no allowance covers that.
func crowded(b []byte) bool {
	count := 0
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		m := protowire.ConsumeFieldValue(field, kind, b[n:])
		if m < 0 {
			break
		}
		if kind == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(b[n:])
			for len(body) > 0 && count <= maxFields {
				_, _, size := protowire.ConsumeField(body)
				if size < 0 {
					break
				}
				body = body[size:]
				count++
			}
		}
		if count++; count > maxFields {
			return true
		}
		b = b[n+m:]
	}
	return false
}

// response is a p2p.AppResponse. Its slices share memory with the message.
type response struct {
	chainID   []byte
	requestID uint32
	appBytes  []byte
}

// parseResponse parses the content of an AppResponse. It returns false if anything is unusual.
func parseResponse(b []byte) (r response, ok bool) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r, false
		}
		b = b[n:]
		switch {
		case field == 1 && kind == protowire.BytesType:
			r.chainID, n = protowire.ConsumeBytes(b)
		case field == 2 && kind == protowire.VarintType:
			var id uint64
			id, n = protowire.ConsumeVarint(b)
			r.requestID = uint32(id)
		case field == 3 && kind == protowire.BytesType:
			r.appBytes, n = protowire.ConsumeBytes(b)
		default:
			return r, false
		}
		if n < 0 {
			return r, false
		}
		b = b[n:]
	}
	return r, true
}

// decoder reads messages. Safe for concurrent use.
type decoder struct {
	stream   compression.Compressor
	contexts sync.Pool // of *zstdContext
}

// zstdContext decompresses messages of usual size.
type zstdContext struct {
	zstd.Ctx
	out []byte
}

func newDecoder() (*decoder, error) {
	stream, err := compression.NewZstdCompressor(maxMessage)
	if err != nil {
		return nil, fmt.Errorf("making a decompressor: %w", err)
	}
	return &decoder{
		stream:   stream,
		contexts: sync.Pool{New: func() any { return &zstdContext{Ctx: zstd.NewCtx(), out: make([]byte, 16<<10)} }},
	}, nil
}

// content is the content of a message: a response or another message; neither if the service
// does not handle its kind.
type content struct {
	isResponse bool
	response   response
	other      *p2p.Message
}

// decode passes the content of a message to f, which must not keep any of it. It returns the
// decompressed size of the message in bytes. The error is errNotAMessage, or that of f.
func (d *decoder) decode(b []byte, f func(content) error) (plain int, err error) {
	field, body, ok := outermost(b, len(b))
	if ok && field == fieldZstd {
		return d.decompress(body, f)
	}
	compressed, err := read(b, f)
	if len(compressed) > 0 {
		return d.decompress(compressed, f)
	}
	return len(b), err
}

// decompress reads the message within a compressed one.
func (d *decoder) decompress(b []byte, f func(content) error) (plain int, err error) {
	if len(b) == 0 {
		return 0, errNotAMessage
	}
	c := d.contexts.Get().(*zstdContext)
	defer d.contexts.Put(c)
	whole := c.out
	if n, err := c.DecompressInto(whole, b); err == nil {
		whole = whole[:n]
	} else if whole, err = d.stream.Decompress(b); err != nil {
		// The message is malformed. How much work that took is unknown.
		return maxMessage, fmt.Errorf("%w: %w", errNotAMessage, err)
	}
	compressed, err := read(whole, f)
	if len(compressed) > 0 {
		err = errNotAMessage // compressed twice
	}
	return len(whole), err
}

// read passes the content of a message to f. If the message is compressed, read returns the
// compressed bytes instead.
func read(b []byte, f func(content) error) (compressed []byte, err error) {
	if field, body, ok := outermost(b, len(b)); ok {
		if field == fieldAppResponse {
			if r, ok := parseResponse(body); ok {
				return nil, f(content{isResponse: true, response: r})
			}
		}
		if !handled(field) {
			return nil, f(content{})
		}
	}
	if crowded(b) {
		return nil, errNotAMessage
	}
	m := new(p2p.Message)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotAMessage, err)
	}
	switch v := m.GetMessage().(type) {
	case nil:
		return nil, errNotAMessage
	case *p2p.Message_CompressedZstd:
		return v.CompressedZstd, errNotAMessage
	case *p2p.Message_AppResponse:
		return nil, f(content{isResponse: true, response: response{
			chainID:   v.AppResponse.GetChainId(),
			requestID: v.AppResponse.GetRequestId(),
			appBytes:  v.AppResponse.GetAppBytes(),
		}})
	default:
		return nil, f(content{other: m})
	}
}
