package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"quorate/internal/config"
	"quorate/internal/store"
)

// examineStore looks at the configured store without creating anything in it.
func examineStore(ctx context.Context, c config.Config) []Finding {
	f := &findings{area: "store"}
	if c.Store == "" {
		dir := filepath.Join(c.DataDir, config.StoreFolder)
		if _, err := os.Stat(dir); err != nil {
			f.ok("embedded", dir+", which will be created")
		} else {
			f.ok("embedded", dir)
		}
		return f.list
	}
	const remedy = "Check host, port, user, password and database of the URL, and that the server is running."
	s, err := store.InspectPostgres(ctx, c.Store)
	switch {
	case err != nil:
		f.fail("server", config.Redacted(err).Error(), remedy)
	case s.Standby:
		f.fail("server", "a read-only standby", "Name the primary server in store, and standbys in store_read.")
	default:
		f.ok("server", describe(s))
	}
	for i, url := range c.StoreRead {
		check := fmt.Sprintf("store_read %d", i+1)
		switch s, err := store.InspectPostgres(ctx, url); {
		case err != nil:
			f.fail(check, config.Redacted(err).Error(), remedy)
		case !s.Standby:
			f.warn(check, "no standby: "+describe(s), "Name a hot standby of the server of store.")
		default:
			f.ok(check, describe(s))
		}
	}
	return f.list
}

func describe(s store.PostgresFacts) string {
	text := fmt.Sprintf("PostgreSQL %s, answers in %s", s.Version, s.RoundTrip)
	if s.Empty {
		text += "; the tables will be created"
	}
	return text
}
