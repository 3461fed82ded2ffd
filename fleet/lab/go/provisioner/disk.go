package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// XFS, because it can be grown while mounted by whoever may mount it; for ext4 the kernel asks for
	// CAP_SYS_RESOURCE, which containers and sandboxes often lack.
	fileSystem = "xfs"
	smallest   = 16 << 20
	// From here on the journal would be 64 MiB; a lab has many small disks.
	large = 300 << 20
	// Pods that run as any user may write, as with other provisioners for development.
	prototype = "/none\n0 0\nd--777 0 0\n$\n"
)

// A disk is a folder with a sparse file, which has the file system, and a link to the loop device that shows the file.
type disk struct{ folder string }

func (d disk) file() string { return filepath.Join(d.folder, "disk") }
func (d disk) link() string { return filepath.Join(d.folder, "device") }

func (d disk) exists() bool {
	_, err := os.Stat(d.file())
	return err == nil
}

// create makes the file with an empty file system; it is there whole or not at all.
func (d disk) create(ctx context.Context, size int64) error {
	if d.exists() {
		return nil
	}
	if err := os.MkdirAll(d.folder, 0o755); err != nil {
		return err
	}
	partial := d.file() + ".partial"
	if err := os.WriteFile(partial, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(partial, size); err != nil {
		return err
	}
	if err := format(ctx, partial, size); err != nil {
		return err
	}
	return os.Rename(partial, d.file())
}

func format(ctx context.Context, file string, size int64) error {
	root := file + ".root"
	if err := os.WriteFile(root, []byte(prototype), 0o600); err != nil {
		return err
	}
	defer os.Remove(root)
	usual := []string{"-q", "-f", "-p", root}
	frugal := append([]string{"--unsupported", "-m", "reflink=0"}, usual...)
	if size >= large {
		frugal = append(frugal, "-l", "size=16m")
	}
	if _, err := run(ctx, "mkfs.xfs", append(frugal, file)...); err == nil {
		return nil
	}
	// One that is too old for small file systems to be unsupported.
	said, err := run(ctx, "mkfs.xfs", append(usual, file)...)
	if err != nil {
		return fmt.Errorf("mkfs.xfs: %w: %s", err, said)
	}
	return nil
}

func run(ctx context.Context, name string, arguments ...string) (string, error) {
	said, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	return strings.TrimSpace(string(said)), err
}

// attach shows the file as a device. The link is there before its device and goes after it, so that whoever cleans up
// finds every device.
func (d disk) attach() error {
	number, err := d.number()
	if err != nil {
		return err
	}
	if number >= 0 {
		if owner, err := ownerOf(number, d.file()); err != nil {
			return err
		} else if owner == ours {
			return hasten(number)
		} else if owner == nobody {
			if err := configure(number, d.file()); !errors.Is(err, errTaken) {
				return err
			}
		}
		// It is somebody else's meanwhile: after a reboot numbers are free again.
		if err := os.Remove(d.link()); err != nil {
			return err
		}
	}
	for {
		number := anyNumber()
		if owner, err := ownerOf(number, d.file()); err != nil {
			return err
		} else if owner != none {
			continue
		}
		if err := os.Symlink(device(number), d.link()); err != nil {
			return err
		}
		if err := configure(number, d.file()); !errors.Is(err, errTaken) {
			return err
		}
		if err := os.Remove(d.link()); err != nil {
			return err
		}
	}
}

// grow makes file and device larger, never smaller.
func (d disk) grow(size int64) error {
	info, err := os.Stat(d.file())
	if err != nil {
		return err
	}
	if info.Size() < size {
		if err := os.Truncate(d.file(), size); err != nil {
			return err
		}
	}
	if err := d.attach(); err != nil {
		return err
	}
	number, err := d.number()
	if err != nil {
		return err
	}
	return refreshSize(number)
}

// remove frees the device and then the folder. It fails while somebody has the device open.
func (d disk) remove() error {
	number, err := d.number()
	if err != nil {
		return err
	}
	if number >= 0 {
		if err := release(number, d.file()); err != nil {
			return err
		}
	}
	return os.RemoveAll(d.folder)
}

// number is that of the loop device, -1 if none was chosen.
func (d disk) number() (int, error) {
	target, err := os.Readlink(d.link())
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	return strconv.Atoi(strings.TrimPrefix(target, device(-1)))
}
