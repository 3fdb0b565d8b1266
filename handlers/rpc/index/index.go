// Package index answers index.* as a node does that runs with its index enabled
// (avalanchego, package indexer), from the containers that the service keeps.
package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/formatting"

	"quorate/handlers/rpc"
	"quorate/internal/index"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/store"
)

// Options of a Service. All but Status and Log are required.
type Options struct {
	Reader store.Reader
	// Chain names the containers.
	Chain container.Chain
	// Heights are those of the index: the container at index i is the one at height
	// first+i, the last one the one before end. If not all from first on are kept, the
	// error is rpc.ErrForward.
	Heights func(ctx context.Context) (first, end uint64, err error)
	// Status tells how far the chain is recorded: answers about its end last while it
	// tells the same. It does not block. Nil: they are made anew each time.
	Status func() index.Status
	// Log gets what goes wrong with the record, of which clients learn no more than that.
	Log *slog.Logger
}

// Service has the methods of one index. What is kept may lack what consensus knows
// containers by, where it was had from a node without an index; then the nodes are to
// answer.
type Service struct{ o Options }

// New makes a service.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{o}
}

var (
	errNothing = errors.New("no containers have been accepted")
	errBroken  = errors.New("the service cannot read its record of containers")
	errNumber  = fmt.Errorf("numToFetch must be in [1,%d]", indexer.MaxFetchedByRange)
)

// GetLastAccepted answers index.getLastAccepted.
func (s *Service) GetLastAccepted(r *http.Request, args *indexer.GetLastAcceptedArgs, reply *rpc.Raw) error {
	lasts := s.untilNext()
	first, end, err := s.heights(r.Context())
	if err != nil {
		return err
	}
	if first >= end {
		return errNothing
	}
	reply.Lasts = lasts
	return s.reply(r.Context(), reply, first, end-1, args.Encoding)
}

// GetContainerByIndex answers index.getContainerByIndex.
func (s *Service) GetContainerByIndex(r *http.Request, args *indexer.GetContainerByIndexArgs, reply *rpc.Raw) error {
	first, end, err := s.heights(r.Context())
	if err != nil {
		return err
	}
	if first >= end || uint64(args.Index) >= end-first {
		return fmt.Errorf("no container at index %d", args.Index)
	}
	reply.Lasts = rpc.Always
	return s.reply(r.Context(), reply, first, first+uint64(args.Index), args.Encoding)
}

// GetContainerByID answers index.getContainerByID.
func (s *Service) GetContainerByID(r *http.Request, args *indexer.GetContainerByIDArgs, reply *rpc.Raw) error {
	first, one, err := s.find(r.Context(), args.ID)
	if err != nil {
		return err
	}
	reply.Lasts = rpc.Always
	reply.JSON, err = appendContainer(make([]byte, 0, 2*len(one.Bytes)+around), &one, first, args.Encoding)
	return err
}

// GetIndex answers index.getIndex.
func (s *Service) GetIndex(r *http.Request, args *indexer.GetIndexArgs, reply *rpc.Raw) error {
	first, one, err := s.find(r.Context(), args.ID)
	if err != nil {
		return err
	}
	reply.Lasts = rpc.Always
	reply.JSON = append(strconv.AppendUint([]byte(`{"index":"`), one.Height-first, 10), `"}`...)
	return nil
}

// IsAccepted answers index.isAccepted.
func (s *Service) IsAccepted(r *http.Request, args *indexer.IsAcceptedArgs, reply *indexer.IsAcceptedResponse) error {
	_, _, err := s.find(r.Context(), args.ID)
	if errors.Is(err, database.ErrNotFound) {
		return nil
	}
	reply.IsAccepted = err == nil
	return err
}

// GetContainerRange answers index.getContainerRange.
func (s *Service) GetContainerRange(r *http.Request, args *indexer.GetContainerRangeArgs, reply *rpc.Raw) error {
	n := uint64(args.NumToFetch)
	if n == 0 {
		reply.JSON = []byte(`{"containers":[]}`)
		return nil
	}
	if n > indexer.MaxFetchedByRange {
		return fmt.Errorf("%w but is %d", errNumber, n)
	}
	ctx := r.Context()
	lasts := s.untilNext()
	first, end, err := s.heights(ctx)
	if err != nil {
		return err
	}
	if first >= end {
		return errNothing
	}
	start, last := uint64(args.StartIndex), end-first-1
	if start > last {
		return fmt.Errorf("start index (%d) > last accepted index (%d)", start, last)
	}
	reply.Lasts = rpc.Always
	if n > last-start+1 {
		n, reply.Lasts = last-start+1, lasts
	}
	var all []container.Container
	size, held := 0, int64(0)
	for uint64(len(all)) < n {
		some, err := s.o.Chain.Range(ctx, s.o.Reader, first+start+uint64(len(all)), min(int(n)-len(all), atATime))
		if err != nil {
			return s.broken(err)
		}
		if len(some) == 0 {
			return rpc.ErrForward // there is a gap in what is kept
		}
		for i := range some {
			if some[i].Form != container.Accepted {
				return rpc.ErrForward
			}
			size += 2*len(some[i].Bytes) + around
			held += int64(3*len(some[i].Bytes) + around)
		}
		if err := node.Take(ctx, held); err != nil {
			return rpc.ErrBusy
		}
		held = 0
		all = append(all, some...)
	}
	b := append(make([]byte, 0, size+around), `{"containers":[`...)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendContainer(b, &all[i], first, args.Encoding); err != nil {
			return err
		}
	}
	b = append(b, `]}`...)
	reply.JSON = b
	return nil
}

// untilNext says whether the chain is recorded as far as it is now; nil if nobody knows.
func (s *Service) untilNext() func() bool {
	if s.o.Status == nil {
		return nil
	}
	was := s.o.Status()
	return func() bool {
		is := s.o.Status()
		return is.Next == was.Next && is.Kept == was.Kept
	}
}

func (s *Service) heights(ctx context.Context) (first, end uint64, err error) {
	if first, end, err = s.o.Heights(ctx); err != nil && !errors.Is(err, rpc.ErrForward) {
		err = s.broken(err)
	}
	return first, end, err
}

// broken is what clients are told of an error of the store.
func (s *Service) broken(err error) error {
	s.o.Log.Error("containers cannot be read", slog.String("chain", s.o.Chain.Name), slog.Any("error", err))
	return errBroken
}

// find returns a container of this index by its ID, and the height of the first
// container. The error is database.ErrNotFound, whose text is the node's, if there is
// no such container.
func (s *Service) find(ctx context.Context, id ids.ID) (first uint64, one container.Container, err error) {
	first, end, err := s.heights(ctx)
	if err != nil {
		return 0, one, err
	}
	one, err = s.o.Chain.ByID(ctx, s.o.Reader, id)
	switch {
	case err == nil && one.Height >= first && one.Height < end:
		return first, one, nil
	case err != nil && !errors.Is(err, container.ErrMissing):
		return 0, one, s.broken(err)
	case first >= end:
		return 0, one, database.ErrNotFound
	}
	// The container may be one whose ID is not known. IDs are known from a certain height
	// on, or until then, as the nodes' index came and went.
	for _, h := range []uint64{first, end - 1} {
		if _, err := s.accepted(ctx, h); err != nil {
			return 0, one, err
		}
	}
	return 0, one, database.ErrNotFound
}

// accepted reads a container as consensus knows it, or fails with rpc.ErrForward.
func (s *Service) accepted(ctx context.Context, height uint64) (container.Container, error) {
	one, err := s.o.Chain.Get(ctx, s.o.Reader, height)
	switch {
	case errors.Is(err, container.ErrMissing), err == nil && one.Form != container.Accepted:
		return one, rpc.ErrForward
	case err != nil:
		return one, s.broken(err)
	}
	return one, nil
}

func (s *Service) reply(ctx context.Context, reply *rpc.Raw, first, height uint64, e formatting.Encoding) error {
	one, err := s.accepted(ctx, height)
	if err != nil {
		return err
	}
	reply.JSON, err = appendContainer(make([]byte, 0, 2*len(one.Bytes)+around), &one, first, e)
	return err
}

// atATime is how many containers are read before they are counted.
const atATime = 128

// around is at least what a container takes in JSON besides its bytes, in bytes.
const around = 192

// appendContainer writes what indexer.FormattedContainer is as JSON.
func appendContainer(b []byte, one *container.Container, first uint64, e formatting.Encoding) ([]byte, error) {
	b = append(b, `{"id":"`...)
	b = appendID(b, one.ID)
	b = append(b, `","bytes":"`...)
	switch e {
	case formatting.Hex, formatting.HexC, formatting.HexNC:
		b = rpc.AppendHex(b, e, one.Bytes, one.Hash)
	default:
		_, err := formatting.Encode(e, nil) // which says why not
		if err == nil {
			err = fmt.Errorf("unknown encoding %s", e)
		}
		return nil, err
	}
	// When this record had it, and where that was not noted, the node that it is from.
	at := one.Kept
	if at.IsZero() {
		at = one.Time
	}
	b = append(b, `","timestamp":"`...)
	b = at.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","encoding":"`...)
	b = append(b, e.String()...)
	b = append(b, `","index":"`...)
	b = strconv.AppendUint(b, one.Height-first, 10)
	return append(b, `"}`...), nil
}
