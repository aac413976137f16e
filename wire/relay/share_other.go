//go:build !linux

package relay

import (
	"errors"
	"net"
)

func setReusePort(int) error { return errors.New("not supported on this system") }

func takeOver(string) net.Listener { return nil }

// Offer does nothing on this system.
func Offer(string, net.Listener) (stop func()) { return func() {} }
