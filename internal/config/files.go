package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"quorate/handlers/data/times"
	"quorate/handlers/evm/methods"
	"quorate/handlers/evm/tokenlist"
	"quorate/handlers/socket"
	"quorate/internal/chain/genesis"
	"quorate/internal/peernode/checkpoint"
)

// begins reports whether the data folder has no state of a network's P-Chain yet.
func (c *Config) begins(name string) bool {
	_, err := os.Stat(filepath.Join(c.DataDir, name, PChainFolder, "CURRENT"))
	return err != nil
}

// fileProblems returns all mistakes in the configured files. Each begins with the name of a key.
func (c *Config) fileProblems() (all []error) {
	check := func(key string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", key, err))
		}
	}
	if c.TLS.Cert != "" && c.TLS.Key != "" {
		_, err := socket.LoadCertificate(c.TLS.Cert, c.TLS.Key, nil)
		check("tls", err)
	}
	for i, name := range c.TokenLists {
		_, err := tokenlist.Open(name)
		check(fmt.Sprintf("token_lists[%d]", i), err)
	}
	if c.MethodSignatures != "" {
		_, err := methods.Open(c.MethodSignatures)
		check("method_signatures", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Networks)) {
		if file := c.Networks[name].GenesisFile; file != "" {
			_, err := genesis.FromFile(file)
			check("networks."+name+".genesis_file", err)
		}
		if file := c.Networks[name].UpgradeFile; file != "" {
			_, err := genesis.UpgradesFromFile(file)
			check("networks."+name+".upgrade_file", err)
		}
		if file := c.Networks[name].Checkpoint; file != "" && c.begins(name) {
			_, err := checkpoint.ReadHeader(file)
			check("networks."+name+".checkpoint", err)
		}
		if file := c.Networks[name].XChainTimes; file != "" {
			f, err := times.Open(file)
			if err == nil {
				err = f.Close()
			}
			check("networks."+name+".x_chain_times", err)
		}
	}
	if c.DataDir != "" {
		keys := c.KeyFile()
		if _, err := keys.List(); err != nil {
			check("data_dir", fmt.Errorf("the API keys in %s: %w", keys, err))
		}
	}
	return all
}
