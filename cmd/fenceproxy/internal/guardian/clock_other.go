//go:build !linux

package guardian

import "time"

func now() time.Duration { return time.Duration(time.Now().UnixNano()) }
