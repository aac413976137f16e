//go:build !linux

package guardian

import "syscall"

func adoptOrphans()                  {}
func dieWithUs(*syscall.SysProcAttr) {}
func reapOrphans(int)                {}
func killDescendants()               {}
