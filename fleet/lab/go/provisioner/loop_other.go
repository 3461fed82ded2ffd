//go:build !linux

package main

import "errors"

// Where there are no loop devices there are no real nodes either, and for simulated ones no disk is made.

var errNoLoops = errors.New("disks need the loop devices of Linux")

func configure(int, string) error { return errNoLoops }
func hasten(int) error            { return errNoLoops }
func refreshSize(int) error       { return errNoLoops }
func release(int, string) error   { return errNoLoops }
