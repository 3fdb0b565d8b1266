package rig

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"

	"quorate/internal/store/storetest/pgserver"
)

// Build builds the service into a folder and says where the program is. The current
// folder has to be in the module.
func Build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "quorate")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "quorate/cmd/quorate").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the service, in a folder of the module: %w\n%s", err, out)
	}
	return program, nil
}

// Addresses are two on loopback that nobody listens on, for a service that may be
// started there more than once.
func Addresses() (public, private string, err error) {
	for _, address := range []*string{&public, &private} {
		port, err := pgserver.FreePort()
		if err != nil {
			return "", "", err
		}
		*address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return public, private, nil
}

// StartPostgres starts a PostgreSQL server with the settings that the README asks for.
func StartPostgres() (*pgserver.Server, error) {
	return pgserver.Start("shared_buffers=512MB", "max_wal_size=4GB", "wal_compression=on")
}
