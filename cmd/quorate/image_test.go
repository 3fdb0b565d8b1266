package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"quorate/internal/testenv"
)

// builder runs buildah, with its images in a folder of its own.
type builder struct {
	program string
	global  []string
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	program := testenv.Program(t, "buildah", "buildah")
	if os.Geteuid() != 0 {
		testenv.Missing(t, "buildah must run as root to start a program in a container without further set-up")
	}
	dir := t.TempDir()
	return &builder{program, []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "images"), "--runroot", filepath.Join(dir, "run")}}
}

// command returns a command of buildah that needs no daemon and no namespaces.
func (b *builder) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.program, append(append([]string{}, b.global...), args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot")
	return cmd
}

// run runs a command of buildah and returns its standard output.
func (b *builder) run(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := b.command(t.Context(), args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	require.NoError(t, cmd.Run(), "buildah %v: %s", args, &errOut)
	return out.Bytes()
}

// The image is built from the Dockerfile and runs quorate dev, as its user, to the first signed message. Then its health
// check succeeds. A folder replaces the first stage of the Dockerfile, whose base would have to be pulled. The script of
// that stage makes the folder, with a program that is built already.
func testImage(t *testing.T, program string) {
	b := newBuilder(t)
	dir := t.TempDir()
	command(t, "deploy/rootfs.sh", filepath.Join(dir, "out"), program)
	b.run(t, "build", "--format", "docker", "--pull-never", "--build-context", "build="+dir, "-t", "quorate", "-f", "deploy/Dockerfile", ".")

	var built struct {
		Docker struct {
			Config struct {
				User        string
				Entrypoint  []string
				Healthcheck struct{ Test []string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(b.run(t, "inspect", "--type", "image", "quorate"), &built))
	config := built.Docker.Config
	require.Equal(t, "65532:65532", config.User)
	require.Equal(t, "CMD", config.Healthcheck.Test[0])

	container := string(bytes.TrimSpace(b.run(t, "from", "--pull-never", "quorate")))
	files := string(bytes.TrimSpace(b.run(t, "mount", container)))
	listen, private := freeAddress(t), freeAddress(t)
	within := []string{"run", "--env", "QUORATE_PRIVATE_LISTEN=" + private, container, "--"}
	ctx, stop := context.WithCancel(t.Context())
	dev := b.command(ctx, slices.Concat(within, config.Entrypoint, []string{"dev", "--listen", listen, "--private-listen", private})...)
	dev.Cancel = func() error { return dev.Process.Signal(os.Interrupt) }
	dev.WaitDelay = 20 * time.Second
	out := &lines{}
	dev.Stdout, dev.Stderr = out, out
	require.NoError(t, dev.Start())
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	defer func() {
		stop()
		<-ended
	}()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "First message signed and verified") }, time.Minute, 50*time.Millisecond, "%s", out)
	require.Contains(t, string(b.run(t, slices.Concat(within, config.Healthcheck.Test[1:])...)), "alive")
	// Its folder for this run shows which user it is.
	folders, err := filepath.Glob(filepath.Join(files, "tmp", "quorate-dev-*"))
	require.NoError(t, err)
	require.Len(t, folders, 1)
	info, err := os.Stat(folders[0])
	require.NoError(t, err)
	require.EqualValues(t, 65532, info.Sys().(*syscall.Stat_t).Uid)
}
