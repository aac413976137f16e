package main

import (
	"os/signal"
	"syscall"
	"unsafe"
)

// The command of run has a process group of its own, which must be the terminal's foreground group: else it is stopped
// when it reads from it, and Ctrl-C does not reach it.

// ownsTerminal reports whether standard input is a terminal whose foreground group is ours.
func ownsTerminal() bool {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}

// takeTerminal makes us the foreground group again, as which a background group would be stopped (SIGTTOU).
func takeTerminal() {
	signal.Ignore(syscall.SIGTTOU)
	group := int32(syscall.Getpgrp())
	syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCSPGRP, uintptr(unsafe.Pointer(&group)))
}
