package lockclient

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/fenceproxy/fenceproxy/tokens"
)

// Observe yields the holder of a lock, and each change: the zero Leader while nobody holds it exclusively. An error that
// is ErrUnavailable says that the last state may be old; the sequence goes on by itself. Any other error is the last
// element. It ends with ctx, without an error. States may be skipped when they change faster than they are seen.
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := tokens.ValidName(name); err != nil {
			yield(Leader{}, err)
			return
		}
		var last Leader
		told := false // last was yielded, and no error since
		const least, most = 20 * time.Millisecond, time.Second
		for pause := time.Duration(least); ; pause = min(2*pause, most) {
			stopped := false
			err := c.backend.Observe(ctx, name, func(l Leader) bool {
				pause = least
				if told && l == last {
					return true
				}
				last, told = l, true
				stopped = !yield(l, nil)
				return !stopped
			})
			if stopped || ctx.Err() != nil {
				return
			}
			if err != nil {
				told = false
				if !yield(Leader{}, err) || !errors.Is(err, ErrUnavailable) {
					return
				}
			}
			if sleep(ctx, jitter(pause)) != nil {
				return
			}
		}
	}
}
