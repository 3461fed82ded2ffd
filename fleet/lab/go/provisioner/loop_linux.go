package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// configure makes the device and has it show the file; errTaken if it shows another.
//
// Direct: what is written goes to the machine's disk at once, past the cache of the machine's own file system; the one
// on the device has a cache already.
func configure(number int, file string) error {
	if err := control(unix.LOOP_CTL_ADD, number); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	opened, err := open(number)
	if err != nil {
		return err
	}
	defer opened.Close()
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer backing.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_DIRECT_IO}}
	err = unix.IoctlLoopConfigure(int(opened.Fd()), &config)
	if errors.Is(err, unix.EBUSY) {
		return errTaken
	}
	if err != nil {
		return err
	}
	return hasten(number)
}

// hasten has the kernel keep requests to flush to itself. Each would sync the machine's own journal, so that a pod's
// fsync takes two; without them it takes less than one. All that is lost for it is what the last seconds of a machine
// without power would have kept, and no lab outlives those.
func hasten(number int) error {
	err := os.WriteFile(fmt.Sprintf("/sys/block/loop%d/queue/write_cache", number), []byte("write through"), 0)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil // slower, but right
	}
	return err
}

// refreshSize has a device look at its file's size again.
func refreshSize(number int) error {
	opened, err := open(number)
	if err != nil {
		return err
	}
	defer opened.Close()
	return unix.IoctlSetInt(int(opened.Fd()), unix.LOOP_SET_CAPACITY, 0)
}

// release takes the file from the device and removes it. One that is open elsewhere lets go of the file when it is
// closed there; until then this fails.
func release(number int, file string) error {
	owner, err := ownerOf(number, file)
	if err != nil || owner == none || owner == another {
		return err
	}
	if owner == ours {
		opened, err := open(number)
		if err != nil {
			return err
		}
		err = unix.IoctlSetInt(int(opened.Fd()), unix.LOOP_CLR_FD, 0)
		opened.Close()
		if err != nil && !errors.Is(err, unix.ENXIO) {
			return err
		}
	}
	if err := control(unix.LOOP_CTL_REMOVE, number); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	// As in open: nobody else does where the kernel does not keep /dev.
	if err := os.Remove(device(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// open makes the device's node where nobody else does: in containers /dev is not the kernel's.
func open(number int) (*os.File, error) {
	opened, err := os.OpenFile(device(number), os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return opened, err
	}
	numbers, err := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/dev", number))
	if err != nil {
		return nil, err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(string(numbers), "%d:%d", &major, &minor); err != nil {
		return nil, err
	}
	if err := unix.Mknod(device(number), unix.S_IFBLK|0o600, int(unix.Mkdev(major, minor))); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	return os.OpenFile(device(number), os.O_RDWR, 0)
}

func control(request uint, number int) error {
	opened, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("no loop devices here: %w", err)
	}
	defer opened.Close()
	return unix.IoctlSetInt(int(opened.Fd()), request, number)
}
