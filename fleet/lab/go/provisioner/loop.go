package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
)

// Loop devices as the kernel has them. Numbers are chosen at random far above those that other programs get when they
// ask for a free one.

const lowest, highest = 4096, 65536 // where a device may have sixteen partitions, there are no higher numbers

type owner int

const (
	none   owner = iota // there is no such device
	nobody              // it shows no file
	ours
	another
)

var errTaken = errors.New("the device is taken")

func anyNumber() int { return lowest + rand.IntN(highest-lowest) }

// device is the path of a loop device; what comes before the number for -1.
func device(number int) string {
	if number < 0 {
		return "/dev/loop"
	}
	return fmt.Sprintf("/dev/loop%d", number)
}

// ownerOf says whose a device is, as seen from a file, which may be deleted meanwhile.
func ownerOf(number int, file string) (owner, error) {
	entry := fmt.Sprintf("/sys/block/loop%d", number)
	if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	shown, err := os.ReadFile(entry + "/loop/backing_file")
	if errors.Is(err, fs.ErrNotExist) {
		return nobody, nil
	}
	if err != nil {
		return none, err
	}
	if strings.TrimSuffix(strings.TrimSpace(string(shown)), " (deleted)") == file {
		return ours, nil
	}
	return another, nil
}
