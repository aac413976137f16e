//go:build !linux

package guardian

import "syscall"

func adoptOrphans()                  {}
func dieWithUs(*syscall.SysProcAttr) {}
func descendants(map[int]bool) []int { return nil }
func onlyDead(int) bool              { return false }
