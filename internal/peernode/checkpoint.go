package peernode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/ava-labs/avalanchego/database"
	"github.com/ava-labs/avalanchego/database/prefixdb"
	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/hashing"

	"quorate/internal/peernode/checkpoint"
	"quorate/internal/peernode/pchainvm"
)

// Checkpoint names a checkpoint to begin with.
type Checkpoint struct {
	File string
	// Hash is what the operator trusts.
	Hash ids.ID
}

// errOtherCheckpoint means that the voters' chain does not have the block of the checkpoint.
var errOtherCheckpoint = errors.New("the checkpoint is of another chain: the network's P-Chain does not have its block; remove the folder pchain of the network's data, and use a checkpoint from another source")

// errBelowCheckpoint means that the voters' last accepted block is an ancestor of the checkpoint's, or is of another chain.
var errBelowCheckpoint = errors.New("the network's last accepted block is below that of the checkpoint")

var errImporting = errors.New("a checkpoint is being imported")

// stateSection is the prefix of the VM's database.
var stateSection = []byte("state")

// currentFile is in the folder of a LevelDB database that can be opened.
const currentFile = "CURRENT"

// originFile is in the folder of a state that began with a checkpoint. LevelDB ignores it.
const originFile = "checkpoint.json"

var (
	// dataFiles matches the names of LevelDB's tables and journals.
	dataFiles = regexp.MustCompile(`^\d+\.(ldb|sst|log)$`)
	// movableFiles matches the names of the files that an import moves, except currentFile.
	movableFiles = regexp.MustCompile(`^(\d+\.(ldb|sst|log|tmp)|MANIFEST-\d+|CURRENT\..+|LOCK|LOG|LOG\.old|checkpoint\.json)$`)
)

// importFolder is in the folder of the state from the beginning of an import until CURRENT is moved out of it. LevelDB
// ignores it.
const importFolder = "import"

// origin is what a state began with.
type origin struct {
	checkpoint.Header
	Hash ids.ID `json:"hash"`
}

// originOf returns what the state in a folder began with. It returns nil if that was the genesis. found is false if the
// folder has no state.
func originOf(dir string) (o *origin, found bool, err error) {
	if found, err = exists(filepath.Join(dir, currentFile)); err != nil || !found {
		return nil, false, err
	}
	b, err := os.ReadFile(filepath.Join(dir, originFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err == nil {
		o = new(origin)
		err = json.Unmarshal(b, o)
	}
	if err != nil {
		return nil, true, fmt.Errorf("reading what the state of the P-Chain began with: %w", err)
	}
	return o, true, nil
}

func exists(name string) (bool, error) {
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the state of the P-Chain: %w", err)
	}
	return true, nil
}

// First returns the height of the lowest block that the state has, besides the genesis block. Blocks and transactions
// below it are not there if the state began with a checkpoint.
func (n *Node) First() uint64 {
	if n.origin == nil {
		return 0
	}
	return n.origin.Height
}

// findOrigin finds what the state begins with: the one that is there, the configured checkpoint, or the genesis.
func (n *Node) findOrigin() error {
	if n.o.Dir != "" {
		o, found, err := originOf(n.o.Dir)
		if err != nil || found {
			n.origin = o
			return err
		}
	}
	if n.o.Checkpoint == nil {
		return nil
	}
	f, r, err := n.openCheckpoint()
	if n.o.Dir == "" && errors.Is(err, fs.ErrNotExist) {
		return nil // a command that keeps no state; the service, which has one, may need the file no more
	}
	if err != nil {
		return err
	}
	r.Close()
	n.origin, n.fresh = &origin{r.Header, n.o.Checkpoint.Hash}, true
	return f.Close()
}

// openCheckpoint opens the configured checkpoint and checks that it is of this network.
func (n *Node) openCheckpoint() (f *os.File, r *checkpoint.Reader, err error) {
	f, err = os.Open(n.o.Checkpoint.File)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the checkpoint: %w", err)
	}
	if r, err = checkpoint.NewReader(f); err == nil {
		switch g := n.o.Genesis; {
		case r.Header.NetworkID != g.NetworkID:
			err = fmt.Errorf("it is of network %d and not of network %d; name a checkpoint of this network", r.Header.NetworkID, g.NetworkID)
		case r.Header.Genesis != hashing.ComputeHash256Array(g.Bytes):
			err = errors.New("it is of a network with another genesis; name a checkpoint of this network")
		}
		if err != nil {
			r.Close()
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("checkpoint %s: %w", n.o.Checkpoint.File, err), f.Close())
	}
	return f, r, nil
}

// openState opens the database, and imports the checkpoint if there is one and no state. The database in the folder is
// complete at any time: an import that does not end begins again.
func (n *Node) openState(ctx context.Context) (database.Database, error) {
	if n.o.Dir != "" {
		if err := removeImport(n.o.Dir); err != nil {
			return nil, err
		}
	}
	if !n.fresh {
		if n.o.Checkpoint != nil {
			n.log.Info("the P-Chain's state is there; the checkpoint is not used")
		}
		return openDatabase(n.o.Dir)
	}
	n.change(func(s *Status) { s.Err = errImporting })
	began := time.Now()
	if n.o.Dir == "" {
		db, err := openDatabase("")
		if err == nil {
			err = n.importCheckpoint(ctx, db)
		}
		return db, err
	}
	if err := checkNoData(n.o.Dir); err != nil {
		return nil, err
	}
	unfinished := filepath.Join(n.o.Dir, importFolder)
	err := n.importInto(ctx, unfinished)
	if err == nil {
		err = moveFiles(unfinished, n.o.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, removeImport(n.o.Dir))
	}
	n.fresh = false
	n.log.Info("imported a checkpoint", slog.Uint64("height", n.origin.Height), slog.Any("blockID", n.origin.BlockID),
		slog.Time("time", n.origin.Time), slog.String("took", time.Since(began).Round(time.Millisecond).String()))
	return openDatabase(n.o.Dir)
}

// importInto imports the checkpoint into a new folder.
func (n *Node) importInto(ctx context.Context, dir string) (err error) {
	db, err := openDatabase(dir)
	if err != nil {
		return err
	}
	err = errors.Join(n.importCheckpoint(ctx, db), db.Close())
	if err != nil {
		return err
	}
	b, err := json.Marshal(n.origin)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, originFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the checkpoint: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("importing the checkpoint: %w", err)
	}
	for _, file := range files {
		if err := syncFile(filepath.Join(dir, file.Name())); err != nil {
			return err
		}
	}
	return syncFile(dir)
}

// moveFiles moves the files of an imported database into the folder of the state, which can be a mount point. The
// database can be opened only once CURRENT is there.
func moveFiles(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("importing the checkpoint: %w", err)
	}
	move := func(name string) error {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("importing the checkpoint: %w", err)
		}
		return nil
	}
	for _, file := range files {
		if file.Name() == currentFile {
			continue
		}
		if err := move(file.Name()); err != nil {
			return err
		}
	}
	if err := errors.Join(syncFile(to), syncFile(filepath.Dir(to))); err != nil {
		return err
	}
	if err := move(currentFile); err != nil {
		return err
	}
	if err := syncFile(to); err != nil {
		return err
	}
	return removeImport(to)
}

// removeImport removes what an interrupted import left in the folder of the state. Without CURRENT, that includes the
// files that it had moved already: LevelDB would repair a database from them.
func removeImport(dir string) error {
	// Of earlier versions. Removing what is not there fails on a read-only file system.
	if found, err := exists(dir + ".import"); err != nil {
		return err
	} else if found {
		if err := os.RemoveAll(dir + ".import"); err != nil {
			return fmt.Errorf("removing an unfinished import: %w", err)
		}
	}
	unfinished := filepath.Join(dir, importFolder)
	if found, err := exists(unfinished); err != nil || !found {
		return err
	}
	if found, err := exists(filepath.Join(dir, currentFile)); err != nil {
		return err
	} else if !found {
		if err := removeMoved(dir); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(unfinished); err != nil { // last: without it the moved files would stay
		return fmt.Errorf("removing an unfinished import: %w", err)
	}
	return nil
}

// removeMoved removes the files of an import from the folder of the state.
func removeMoved(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("removing an unfinished import: %w", err)
	}
	for _, file := range files {
		if !movableFiles.MatchString(file.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
			return fmt.Errorf("removing an unfinished import: %w", err)
		}
	}
	return syncFile(dir)
}

// checkNoData returns an error if a folder without CURRENT has data of a database.
func checkNoData(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("importing the checkpoint: %w", err)
	}
	for _, file := range files {
		if dataFiles.MatchString(file.Name()) {
			return fmt.Errorf("importing the checkpoint: the folder %s has the file %s of a database, and the database's file CURRENT is missing; remove the files in the folder", dir, file.Name())
		}
	}
	return nil
}

// syncFile makes a file or folder survive a power failure.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("importing the checkpoint: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("importing the checkpoint: %w", err)
	}
	return nil
}

// importBatch is how many bytes are written at once.
const importBatch = 4 << 20

// importCheckpoint copies the state of the checkpoint to a database.
func (n *Node) importCheckpoint(ctx context.Context, db database.Database) error {
	f, r, err := n.openCheckpoint()
	if err != nil {
		return err
	}
	defer func() { r.Close(); _ = f.Close() }() // it was read
	if r.Header != n.origin.Header {
		return fmt.Errorf("checkpoint %s changed since the start; start again", n.o.Checkpoint.File)
	}
	batch := prefixdb.New(stateSection, db).NewBatch()
	for err == nil {
		var key, value []byte
		if key, value, err = r.Next(); err != nil {
			break
		}
		if err = batch.Put(key, value); err == nil && batch.Size() > importBatch {
			if err = batch.Write(); err == nil {
				batch.Reset()
				err = ctx.Err()
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = batch.Write()
	}
	if err == nil && r.Hash() != n.o.Checkpoint.Hash {
		h, want := r.Hash(), n.o.Checkpoint.Hash
		err = fmt.Errorf("it has the hash %x, and checkpoint_hash is %x; one of both is not the one that you trust", h[:], want[:])
	}
	if err != nil {
		return fmt.Errorf("importing checkpoint %s: %w", n.o.Checkpoint.File, err)
	}
	return nil
}

// maxExports bounds the checkpoints that are exported or waited for at a time.
const maxExports = 4

var errEnding = errors.New("the P-Chain is not followed any more")

// Errors of Export.
var (
	ErrBusy = errors.New("as many checkpoints are exported as may be at a time; try again when one has ended")
	ErrPast = errors.New("the P-Chain is beyond that height already")
)

// export waits for the state at a height.
type export struct {
	height uint64
	state  chan *pchainvm.State // buffered
}

// Export writes a checkpoint of the state, and calls begin before the first byte. With a height, it waits for that
// height. If the block at that height is a proposal, the checkpoint is of the block that decides about it. Errors before
// begin: ErrBusy, ErrPast, ErrBehind, and others.
func (n *Node) Export(ctx context.Context, height uint64, begin func(checkpoint.Header) io.Writer) (ids.ID, error) {
	ctx, chain, done, err := n.startExport(ctx)
	if err != nil {
		return ids.Empty, err
	}
	defer done()
	state, err := n.stateAt(ctx, chain, height)
	if err != nil {
		return ids.Empty, err
	}
	defer state.Release()
	h := checkpoint.Header{
		NetworkID: n.o.Genesis.NetworkID, Genesis: hashing.ComputeHash256Array(n.o.Genesis.Bytes),
		Height: state.Height, BlockID: state.BlockID, Time: state.Time,
	}
	return checkpoint.Write(begin(h), h, func(put func(key, value []byte) error) error { return state.Pairs(ctx, put) })
}

// startExport has Run wait with closing the state until done is called. The context ends with Run.
func (n *Node) startExport(ctx context.Context) (_ context.Context, chain *pchainvm.Chain, done func(), err error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.exportMu.Lock()
	defer n.exportMu.Unlock()
	if err := n.readyLocked(); err != nil {
		return nil, nil, nil, err
	}
	if n.exporting == maxExports {
		return nil, nil, nil, ErrBusy
	}
	n.exporting++
	n.exports.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	ending := n.ending
	go func() { // ends with done
		select {
		case <-ending:
			cancel(errEnding)
		case <-ctx.Done():
		}
	}()
	return ctx, n.chain, func() {
		cancel(nil)
		n.exportMu.Lock()
		n.exporting--
		n.exportMu.Unlock()
		n.exports.Done()
	}, nil
}

// stateAt returns the present state or, unless height is 0, waits for that of a height.
func (n *Node) stateAt(ctx context.Context, chain *pchainvm.Chain, height uint64) (*pchainvm.State, error) {
	n.exportMu.Lock() // a block that is executed meanwhile is offered afterwards
	e := &export{height, make(chan *pchainvm.State, 1)}
	state, err := chain.State(ctx)
	if err == nil && height > 0 && state.Height != height {
		if state.Height > height {
			err = fmt.Errorf("%w: it is at height %d; name a height above", ErrPast, state.Height)
		} else {
			n.awaited = append(n.awaited, e)
		}
		state.Release()
		state = nil
	}
	n.exportMu.Unlock()
	if err != nil || state != nil {
		return state, err
	}
	defer n.forget(e)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case state := <-e.state:
		return state, nil
	}
}

// forget ends waiting.
func (n *Node) forget(e *export) {
	n.exportMu.Lock()
	defer n.exportMu.Unlock()
	if i := slices.Index(n.awaited, e); i >= 0 {
		n.awaited = slices.Delete(n.awaited, i, i+1)
		return
	}
	select {
	case state := <-e.state: // it came after the end of the wait
		state.Release()
	default:
	}
}

// offer hands the state to those that wait for it, after each executed block.
func (n *Node) offer(ctx context.Context, chain *pchainvm.Chain, executed uint64) error {
	n.exportMu.Lock()
	defer n.exportMu.Unlock()
	var left []*export
	for _, e := range n.awaited {
		if e.height > executed {
			left = append(left, e)
			continue
		}
		state, err := chain.State(ctx)
		if err != nil {
			return err
		}
		if state.Height < e.height { // the block is a proposal
			state.Release()
			left = append(left, e)
			continue
		}
		e.state <- state
	}
	n.awaited = left
	return nil
}
