package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"

	"quorate/internal/config"
)

const (
	// fewFiles is the number of open files below which connections to validators, clients and the store's files may
	// fail. Mainnet has more than 1,000 validators, and the store opens up to 1,000 files.
	fewFiles = 4096
	// leastDisk is the free space that the embedded store needs to begin, in bytes.
	leastDisk = 1 << 30
)

// examineMachine looks at the limits of this machine. networkIDs are those of the networks of names, 0 where no node
// answers.
func examineMachine(c config.Config, names []string, networkIDs []uint32) []Finding {
	f := &findings{area: "machine"}
	folder(f, c.DataDir)
	disk(f, c, names, networkIDs)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		f.skip("open files", err.Error())
	} else if files.Cur < fewFiles { // the Go runtime has raised the soft limit to the hard one
		f.warn("open files", fmt.Sprintf("at most %d", files.Cur), "Raise the limit: ulimit -n 65536, or LimitNOFILE= in a systemd unit.")
	} else {
		f.ok("open files", fmt.Sprintf("at most %s", humanize.Comma(int64(min(files.Cur, 1<<40)))))
	}
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		f.skip("memory", err.Error())
		return f.list
	}
	total := info.Totalram * uint64(info.Unit)
	detail := fmt.Sprintf("memory_limit %s of %s", c.MemoryLimit, humanize.IBytes(total))
	if uint64(c.MemoryLimit) > total/10*8 {
		f.warn("memory", detail, "Lower memory_limit to at most 80% of the machine's memory.")
	} else {
		f.ok("memory", detail)
	}
	return f.list
}

// folder checks that the data folder can be written to. If it does not exist, it does so for the nearest folder above
// it that exists.
func folder(f *findings, dir string) {
	const remedy = "Choose a folder of yours with --data-dir, or change its owner."
	detail := dir
	existing := nearest(dir)
	if existing != dir {
		detail += ", which will be created"
	}
	file, err := os.CreateTemp(existing, ".quorate-doctor-*")
	if err != nil {
		f.fail("data folder", err.Error(), remedy)
		return
	}
	_ = file.Close()
	if err := os.Remove(file.Name()); err != nil {
		f.fail("data folder", err.Error(), remedy)
		return
	}
	f.ok("data folder", detail)
}

// nearest returns dir, or the nearest folder above it that exists.
func nearest(dir string) string {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// disk compares the free space with what the configured indexes are estimated to take.
func disk(f *findings, c config.Config, names []string, networkIDs []uint32) {
	var estimates []string
	var need uint64
	for i, name := range names {
		if e := c.Networks[name].Estimate(networkIDs[i]); e.Text != "" {
			estimates = append(estimates, fmt.Sprintf("record: %s of %s takes %s", c.Networks[name].Record, name, e.Text))
			need += e.Bytes
		}
	}
	takes := strings.Join(estimates, "; ")
	if c.Store != "" {
		if takes != "" {
			f.ok("estimate", takes+". On a PostgreSQL server it takes three times the disk")
		}
		return
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(nearest(c.DataDir), &s); err != nil {
		f.fail("disk", err.Error(), "Choose another folder with --data-dir.")
		return
	}
	free := s.Bavail * uint64(s.Bsize)
	detail := humanize.Bytes(free) + " free"
	if takes != "" {
		detail += "; " + takes
	}
	switch {
	case free < leastDisk:
		f.fail("disk", detail, "Free some space, or choose another folder with --data-dir.")
	case free < need:
		f.warn("disk", detail, "Index only what you need (record: l1 for signing), or use a larger disk.")
	default:
		f.ok("disk", detail)
	}
}
