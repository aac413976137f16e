package lockclient

import "time"

// WithClocks gives tests clocks of their own: now carries the monotonic time, wall is the wall clock.
func WithClocks(now, wall func() time.Time) Option {
	return func(c *config) { c.now, c.wall = now, wall }
}

// WithExit catches the end of the process.
func WithExit(exit func(int)) Option { return func(c *config) { c.exit = exit } }
