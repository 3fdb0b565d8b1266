// Package admin implements the methods with which an operator changes a running node (avalanchego, package api/admin):
// aliases of chains and endpoints, log levels, profiles.
package admin

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/ava-labs/avalanchego/api"
	"github.com/ava-labs/avalanchego/ids"
	rpcdbpb "github.com/ava-labs/avalanchego/proto/pb/rpcdb"
	"github.com/ava-labs/avalanchego/utils"
	"github.com/ava-labs/avalanchego/utils/formatting"
	"github.com/ava-labs/avalanchego/utils/logging"
	"github.com/ava-labs/avalanchego/utils/perms"
	"github.com/ava-labs/avalanchego/utils/profiler"

	"quorate/handlers/query/page"
	"quorate/internal/store"
)

// Names assigns aliases. An alias is permanent.
type Names interface {
	// AliasEndpoint serves /ext/<endpoint> also at /ext/<alias>.
	AliasEndpoint(endpoint, alias string) error
	// AliasChain adds an alias to a blockchain, which is identified by its ID or an alias.
	AliasChain(chain, alias string) error
	// Aliases returns the aliases of a blockchain in the order in which they were added, nil if there is no such
	// chain.
	Aliases(ids.ID) []string
}

// Loggers gets and sets the levels of loggers.
type Loggers interface {
	// Names returns the names of all loggers.
	Names() []string
	// Levels returns the levels of a logger, false if there is no such logger.
	Levels(name string) (Levels, bool)
	// SetLevels sets the levels of an existing logger.
	SetLevels(name string, levels Levels)
}

// The arguments and replies are those of avalanchego's package api/admin, which is not imported because it depends on
// a node's plugins.
type (
	// AliasArgs are the arguments of admin.alias.
	AliasArgs struct {
		Endpoint string `json:"endpoint"`
		Alias    string `json:"alias"`
	}
	// AliasChainArgs are the arguments of admin.aliasChain.
	AliasChainArgs struct {
		Chain string `json:"chain"`
		Alias string `json:"alias"`
	}
	// GetChainAliasesArgs are the arguments of admin.getChainAliases.
	GetChainAliasesArgs struct {
		Chain string `json:"chain"`
	}
	// GetChainAliasesReply is the reply of admin.getChainAliases.
	GetChainAliasesReply struct {
		Aliases []string `json:"aliases"`
	}
	// GetLoggerLevelArgs are the arguments of admin.getLoggerLevel.
	GetLoggerLevelArgs struct {
		LoggerName string `json:"loggerName"`
	}
	// SetLoggerLevelArgs are the arguments of admin.setLoggerLevel.
	SetLoggerLevelArgs struct {
		LoggerName   string         `json:"loggerName"`
		LogLevel     *logging.Level `json:"logLevel"`
		DisplayLevel *logging.Level `json:"displayLevel"`
	}
	// Levels are the levels of a logger: for log files and for the console.
	Levels struct {
		LogLevel     logging.Level `json:"logLevel"`
		DisplayLevel logging.Level `json:"displayLevel"`
	}
	// LoggerLevelReply is the reply of admin.getLoggerLevel and admin.setLoggerLevel.
	LoggerLevelReply struct {
		LoggerLevels map[string]Levels `json:"loggerLevels"`
	}
	// DBGetArgs are the arguments of admin.dbGet.
	DBGetArgs struct {
		Key string `json:"key"`
	}
	// DBGetReply is the reply of admin.dbGet. The code is 0, or that of the error.
	DBGetReply struct {
		Value     string        `json:"value"`
		ErrorCode rpcdbpb.Error `json:"errorCode"`
	}
	// LoadVMsReply is the reply of admin.loadVMs.
	LoadVMsReply struct {
		NewVMs map[ids.ID][]string `json:"newVMs"`
	}
)

// Profiles writes profiles of this process to a directory. It is safe for concurrent use.
type Profiles struct {
	mu       sync.Mutex
	dir      string
	profiler profiler.Profiler // guarded by mu
}

// NewProfiles returns a Profiles that writes to dir. It creates dir with the first profile.
func NewProfiles(dir string) *Profiles {
	return &Profiles{dir: dir, profiler: profiler.New(dir)}
}

// Close stops a CPU profile that is being written.
func (p *Profiles) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.profiler.StopCPUProfiler() // fails if none is running
}

func (p *Profiles) do(f func(profiler.Profiler) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(p.profiler)
}

// Options configures a Service. All fields but Store are required.
type Options struct {
	Names    Names
	Loggers  Loggers
	Profiles *Profiles
	// Settings are the settings that the service was started with, by name. They must not contain secrets.
	Settings map[string]string
	// Store may be nil; then admin.dbGet finds nothing.
	Store store.Reader
}

// Service implements the methods.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service { return &Service{o} }

// maxAlias is the maximum length of an alias, in bytes.
const maxAlias = 512

var (
	errAliasTooLong = errors.New("alias length is too long")
	errNoLevel      = errors.New("need to specify either displayLevel or logLevel")
)

// Alias answers admin.alias.
func (s *Service) Alias(_ *http.Request, args *AliasArgs, _ *api.EmptyReply) error {
	if len(args.Alias) > maxAlias {
		return errAliasTooLong
	}
	return s.o.Names.AliasEndpoint(args.Endpoint, args.Alias)
}

// AliasChain answers admin.aliasChain.
func (s *Service) AliasChain(_ *http.Request, args *AliasChainArgs, _ *api.EmptyReply) error {
	if len(args.Alias) > maxAlias {
		return errAliasTooLong
	}
	return s.o.Names.AliasChain(args.Chain, args.Alias)
}

// GetChainAliases answers admin.getChainAliases.
func (s *Service) GetChainAliases(_ *http.Request, args *GetChainAliasesArgs, reply *GetChainAliasesReply) error {
	id, err := ids.FromString(args.Chain)
	if err != nil {
		return err
	}
	reply.Aliases = s.o.Names.Aliases(id)
	return nil
}

// GetLoggerLevel answers admin.getLoggerLevel.
func (s *Service) GetLoggerLevel(_ *http.Request, args *GetLoggerLevelArgs, reply *LoggerLevelReply) error {
	return s.levels(args.LoggerName, reply)
}

// SetLoggerLevel answers admin.setLoggerLevel.
func (s *Service) SetLoggerLevel(_ *http.Request, args *SetLoggerLevelArgs, reply *LoggerLevelReply) error {
	if args.LogLevel == nil && args.DisplayLevel == nil {
		return errNoLevel
	}
	for _, name := range s.named(args.LoggerName) {
		levels, ok := s.o.Loggers.Levels(name)
		if !ok {
			break // Levels has the new levels
		}
		if args.LogLevel != nil {
			levels.LogLevel = *args.LogLevel
		}
		if args.DisplayLevel != nil {
			levels.DisplayLevel = *args.DisplayLevel
		}
		s.o.Loggers.SetLevels(name, levels)
	}
	return s.levels(args.LoggerName, reply)
}

// named returns the named logger, or all loggers without a name.
func (s *Service) named(name string) []string {
	if name == "" {
		return s.o.Loggers.Names()
	}
	return []string{name}
}

func (s *Service) levels(name string, reply *LoggerLevelReply) error {
	reply.LoggerLevels = make(map[string]Levels)
	for _, name := range s.named(name) {
		levels, ok := s.o.Loggers.Levels(name)
		if !ok {
			return errors.New(`logger with name "` + name + `" not found`)
		}
		reply.LoggerLevels[name] = levels
	}
	return nil
}

// GetConfig answers admin.getConfig.
func (s *Service) GetConfig(_ *http.Request, _ *struct{}, reply *map[string]string) error {
	*reply = s.o.Settings
	return nil
}

// DbGet answers admin.dbGet: the value of a row of the store, by the embedded engine's key. A missing row is part of
// the reply, not an error. Rows with secrets are missing.
//
//nolint:staticcheck // the method's external name, dbGet, is derived from it
func (s *Service) DbGet(r *http.Request, args *DBGetArgs, reply *DBGetReply) error {
	key, err := formatting.Decode(formatting.HexNC, args.Key)
	if err != nil {
		return err
	}
	reply.ErrorCode = rpcdbpb.Error_ERROR_NOT_FOUND
	family, pk, ok := store.ParseKey(key)
	if !ok || s.o.Store == nil || secret(family, pk) {
		return nil
	}
	values, err := s.o.Store.Get(r.Context(), family, []store.PK{pk})
	switch {
	case errors.Is(err, store.ErrClosed):
		reply.ErrorCode = rpcdbpb.Error_ERROR_CLOSED
		return nil
	case err != nil:
		return fmt.Errorf("reading from the store: %w", err)
	case values[0] == nil:
		return nil
	}
	reply.ErrorCode = rpcdbpb.Error_ERROR_UNSPECIFIED
	reply.Value, err = formatting.Encode(formatting.HexNC, values[0])
	return err
}

// secret reports whether the value of a row is a secret: the secret of webhooks of an owner, or the key of page tokens.
func secret(family store.Family, pk store.PK) bool {
	return family == store.FamilyWebhookSecret || family == store.FamilyMeta && string(pk.P) == page.KeyRow
}

// LoadVMs answers admin.loadVMs: it never finds new ones.
func (s *Service) LoadVMs(_ *http.Request, _ *struct{}, reply *LoadVMsReply) error {
	reply.NewVMs = make(map[ids.ID][]string)
	return nil
}

// StartCPUProfiler answers admin.startCPUProfiler.
func (s *Service) StartCPUProfiler(*http.Request, *struct{}, *api.EmptyReply) error {
	return s.o.Profiles.do(profiler.Profiler.StartCPUProfiler)
}

// StopCPUProfiler answers admin.stopCPUProfiler.
func (s *Service) StopCPUProfiler(*http.Request, *struct{}, *api.EmptyReply) error {
	return s.o.Profiles.do(profiler.Profiler.StopCPUProfiler)
}

// MemoryProfile answers admin.memoryProfile.
func (s *Service) MemoryProfile(*http.Request, *struct{}, *api.EmptyReply) error {
	return s.o.Profiles.do(profiler.Profiler.MemoryProfile)
}

// LockProfile answers admin.lockProfile.
func (s *Service) LockProfile(*http.Request, *struct{}, *api.EmptyReply) error {
	return s.o.Profiles.do(profiler.Profiler.LockProfile)
}

// Stacktrace answers admin.stacktrace.
func (s *Service) Stacktrace(*http.Request, *struct{}, *api.EmptyReply) error {
	return s.o.Profiles.do(func(profiler.Profiler) error {
		if err := os.MkdirAll(s.o.Profiles.dir, perms.ReadWriteExecute); err != nil {
			return err
		}
		return perms.WriteFile(filepath.Join(s.o.Profiles.dir, "stacktrace.txt"), []byte(utils.GetStacktrace(true)), perms.ReadWrite)
	})
}
