package nodeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/ava-labs/avalanchego/ids"
	"github.com/ava-labs/avalanchego/utils/constants"

	"quorate/handlers/rpc"
	"quorate/handlers/rpc/admin"
	"quorate/internal/service/logs"
)

// addAdmin adds the admin API if it is enabled.
func addAdmin(a *API) error {
	names := loadNames(a, filepath.Join(a.dir, "aliases.json"))
	if !a.config.Admin {
		return nil
	}
	s := admin.New(admin.Options{Names: names, Loggers: loggers{a.loggers}, Profiles: a.profiles, Settings: a.settings, Store: a.store})
	h, err := a.handler("", rpc.Endpoint{Services: []rpc.Service{{Names: []string{"admin"}, Methods: s}}})
	if err != nil {
		return err
	}
	return a.Operator.Add("admin", "", h)
}

// names holds the aliases that an operator added. They are stored in a file.
type names struct {
	api  *API
	file string
	// unread is why the file could not be read; nil if it was. No alias is added then, because that would replace the file.
	unread error

	mu    sync.Mutex
	given []alias // guarded by mu; in order
}

// alias is an alias of an endpoint or of a blockchain.
type alias struct {
	Endpoint   string `json:"endpoint,omitempty"`
	Blockchain ids.ID `json:"blockchainID,omitzero"`
	OfPlatform bool   `json:"platform,omitempty"` // the P-Chain, whose ID is empty
	Alias      string `json:"alias"`
}

// maxNames is the maximum number of aliases, each of at most 512 bytes.
const maxNames = 4096

// loadNames adds the aliases in a file. Without them the network is served all the same.
func loadNames(a *API, file string) *names {
	n := &names{api: a, file: file}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return n
	}
	if err == nil {
		err = json.Unmarshal(content, &n.given)
	}
	if err != nil {
		n.given, n.unread = nil, fmt.Errorf("reading the aliases in %s: %w; correct the file or remove it, then restart", file, err)
		a.log.Error("the aliases that an operator added are missing", slog.Any("error", n.unread))
		return n
	}
	for _, one := range n.given {
		if err := n.apply(one); err != nil {
			// A newer version may have an endpoint of that name.
			a.log.Warn("an alias that was given before is taken", "alias", one.Alias, "error", err)
		}
	}
	return n
}

func (n *names) apply(one alias) error {
	if one.Endpoint != "" || !one.OfPlatform && one.Blockchain == ids.Empty {
		return n.lead(one.Endpoint, one.Alias)
	}
	if err := n.api.aliases.Alias(one.Blockchain, one.Alias); err != nil {
		return err
	}
	return n.lead(chainBase(one.Blockchain), path.Join(constants.ChainAliasPrefix, one.Alias))
}

// lead adds an alias of a base to both surfaces; the operator's has all endpoints of the public one.
func (n *names) lead(base, name string) error {
	if err := n.api.Operator.Alias(base, name); err != nil {
		return err
	}
	return n.api.Public.Alias(base, name)
}

// give stores an alias that was added.
func (n *names) give(one alias) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unread != nil {
		return n.unread
	}
	if len(n.given) >= maxNames {
		return fmt.Errorf("there are %d aliases already", len(n.given))
	}
	if err := n.apply(one); err != nil {
		return err
	}
	n.given = append(n.given, one)
	content, err := json.MarshalIndent(n.given, "", "  ")
	if err != nil {
		return err
	}
	draft := n.file + ".tmp"
	if err := os.WriteFile(draft, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("the alias holds until the next start: %w", err)
	}
	if err := os.Rename(draft, n.file); err != nil {
		return fmt.Errorf("the alias holds until the next start: %w", err)
	}
	return nil
}

// AliasEndpoint implements admin.Names.
func (n *names) AliasEndpoint(endpoint, name string) error {
	return n.give(alias{Endpoint: endpoint, Alias: name})
}

// AliasChain implements admin.Names.
func (n *names) AliasChain(chain, name string) error {
	id, err := n.api.aliases.Lookup(chain)
	if err != nil {
		return err
	}
	return n.give(alias{Blockchain: id, OfPlatform: id == constants.PlatformChainID, Alias: name})
}

// Aliases implements admin.Names.
func (n *names) Aliases(id ids.ID) []string {
	found, err := n.api.aliases.Aliases(id)
	if err != nil {
		return nil
	}
	return found
}

// loggers adapts the service's loggers to the admin API.
type loggers struct{ *logs.Loggers }

// Levels implements admin.Loggers.
func (l loggers) Levels(name string) (admin.Levels, bool) {
	levels, ok := l.Loggers.Levels(name)
	return admin.Levels(levels), ok
}

// SetLevels implements admin.Loggers.
func (l loggers) SetLevels(name string, levels admin.Levels) {
	l.Loggers.SetLevels(name, logs.Levels(levels))
}
