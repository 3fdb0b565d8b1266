// Package index answers index.* as a node with an index does (avalanchego, package indexer), from the indexed
// containers.
package index

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/indexer"
	"github.com/ava-labs/avalanchego/utils/formatting"
	avajson "github.com/ava-labs/avalanchego/utils/json"

	"quorate/handlers/rpc"
	"quorate/internal/index/container"
	"quorate/internal/node"
	"quorate/internal/store"
)

// Options configures a Service. All fields but Log are required.
type Options struct {
	Reader store.Reader
	// Chain identifies the containers.
	Chain container.Chain
	// Heights returns the range of the index: the container at index i has height first+i, and the last one has height
	// end-1. While the index catches up, that is the last indexed one. The error is rpc.ErrForward if the range is
	// incomplete, and rpc.ErrNotReady if it is unknown.
	Heights func(ctx context.Context) (first, end uint64, err error)
	// Log gets errors of the index. Clients get only a general error.
	Log *slog.Logger
}

// Service implements the methods of one index. Containers from a node without an index lack their consensus IDs; the
// service forwards calls about them.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{o}
}

var (
	errNothing = errors.New("no containers have been accepted")
	errBroken  = errors.New("the service cannot read its index of containers")
	errNumber  = fmt.Errorf("numToFetch must be in [1,%d]", indexer.MaxFetchedByRange)
)

// GetLastAccepted answers index.getLastAccepted.
func (s *Service) GetLastAccepted(r *http.Request, args *indexer.GetLastAcceptedArgs, reply *indexer.FormattedContainer) error {
	first, end, err := s.heights(r.Context())
	if err != nil {
		return err
	}
	if first >= end {
		return errNothing
	}
	return s.reply(r.Context(), reply, first, end-1, args.Encoding)
}

// GetContainerByIndex answers index.getContainerByIndex.
func (s *Service) GetContainerByIndex(r *http.Request, args *indexer.GetContainerByIndexArgs, reply *indexer.FormattedContainer) error {
	first, end, err := s.heights(r.Context())
	if err != nil {
		return err
	}
	if first >= end || uint64(args.Index) >= end-first {
		if err := s.complete(r.Context(), first, end); err != nil {
			return err
		}
		return fmt.Errorf("no container at index %d", args.Index)
	}
	return s.reply(r.Context(), reply, first, first+uint64(args.Index), args.Encoding)
}

// GetContainerByID answers index.getContainerByID.
func (s *Service) GetContainerByID(r *http.Request, args *indexer.GetContainerByIDArgs, reply *indexer.FormattedContainer) error {
	first, one, err := s.find(r.Context(), args.ID)
	if err != nil {
		return err
	}
	*reply, err = newContainer(&one, first, args.Encoding)
	return err
}

// GetIndex answers index.getIndex.
func (s *Service) GetIndex(r *http.Request, args *indexer.GetIndexArgs, reply *indexer.GetIndexResponse) error {
	first, one, err := s.find(r.Context(), args.ID)
	if err != nil {
		return err
	}
	reply.Index = avajson.Uint64(one.Height - first)
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
func (s *Service) GetContainerRange(r *http.Request, args *indexer.GetContainerRangeArgs, reply *indexer.GetContainerRangeResponse) error {
	n := uint64(args.NumToFetch)
	if n == 0 {
		reply.Containers = []indexer.FormattedContainer{}
		return nil
	}
	if n > indexer.MaxFetchedByRange {
		return fmt.Errorf("%w but is %d", errNumber, n)
	}
	ctx := r.Context()
	first, end, err := s.heights(ctx)
	if err != nil {
		return err
	}
	if first >= end {
		return errNothing
	}
	start, last := uint64(args.StartIndex), end-first-1
	if start > last {
		if err := s.complete(ctx, first, end); err != nil {
			return err
		}
		return fmt.Errorf("start index (%d) > last accepted index (%d)", start, last)
	}
	n = min(n, last-start+1)
	var all []container.Container
	for uint64(len(all)) < n {
		some, err := s.o.Chain.Range(ctx, s.o.Reader, first+start+uint64(len(all)), min(int(n)-len(all), atATime))
		if err != nil {
			return s.broken(err)
		}
		if len(some) == 0 {
			return rpc.ErrForward // the index has a gap
		}
		held := int64(0)
		for i := range some {
			if some[i].Form != container.Accepted {
				return rpc.ErrForward
			}
			held += int64(copies*len(some[i].Bytes) + around)
		}
		if err := node.Take(ctx, held); err != nil {
			return rpc.ErrBusy
		}
		all = append(all, some...)
	}
	reply.Containers = make([]indexer.FormattedContainer, len(all))
	for i := range all {
		if reply.Containers[i], err = newContainer(&all[i], first, args.Encoding); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) heights(ctx context.Context) (first, end uint64, err error) {
	if first, end, err = s.o.Heights(ctx); err != nil && !errors.Is(err, rpc.ErrForward) && !errors.Is(err, rpc.ErrNotReady) {
		err = s.broken(err)
	}
	return first, end, err
}

// broken logs an error of the store and returns the error for clients.
func (s *Service) broken(err error) error {
	s.o.Log.Error("containers cannot be read", slog.String("chain", s.o.Chain.Name), slog.Any("error", err))
	return errBroken
}

// find returns a container of this index by its ID, and the height of the first container. The error is
// database.ErrNotFound, with the node's text, if there is no such container.
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
	for _, h := range []uint64{first, end - 1} {
		if _, err := s.accepted(ctx, h); err != nil {
			return 0, one, err
		}
	}
	// The ID may be that of a block for which the node's index failed for a moment.
	switch lacks, err := s.o.Chain.Lacks(ctx, s.o.Reader, first, end); {
	case err != nil:
		return 0, one, s.broken(err)
	case lacks:
		return 0, one, rpc.ErrForward
	}
	return 0, one, database.ErrNotFound
}

// accepted returns the container at height with its consensus ID. The error is rpc.ErrForward if the ID is unknown.
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

// complete returns rpc.ErrForward if the last container lacks its consensus ID. Nodes answer about it, so they must also
// answer about those that follow.
func (s *Service) complete(ctx context.Context, first, end uint64) error {
	if first >= end {
		return nil
	}
	_, err := s.accepted(ctx, end-1)
	return err
}

func (s *Service) reply(ctx context.Context, reply *indexer.FormattedContainer, first, height uint64, e formatting.Encoding) error {
	one, err := s.accepted(ctx, height)
	if err != nil {
		return err
	}
	*reply, err = newContainer(&one, first, e)
	return err
}

const (
	// atATime is the number of containers that are read before their memory is accounted for.
	atATime = 128
	// copies is the memory for a container until it is sent, as a multiple of its bytes: the bytes, their hex, and
	// JSON in a growing buffer.
	copies = 8
	// around is the memory for the other fields of a container, in bytes.
	around = 512
)

// newContainer returns a container as a node encodes it.
func newContainer(one *container.Container, first uint64, e formatting.Encoding) (indexer.FormattedContainer, error) {
	text, err := formatting.Encode(e, one.Bytes)
	if err != nil {
		return indexer.FormattedContainer{}, err
	}
	// Use the time of indexing. If it is unknown, use the upstream node's time.
	at := one.Kept
	if at.IsZero() {
		at = one.Time
	}
	return indexer.FormattedContainer{ID: one.ID, Bytes: text, Timestamp: at.UTC(), Encoding: e, Index: avajson.Uint64(one.Height - first)}, nil
}
