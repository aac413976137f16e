package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// psqlTenure is a cron job: fenceproxy run takes the lock, psql inherits the token and writes.
func (a *actor) psqlTenure(ctx context.Context) {
	tx := a.random.Int64N(1 << 62)
	e := Event{From: now(), Who: a.name, Fence: a.Fence, Op: Write, Tx: tx, Shape: "psql"}
	insert := fill(fmt.Sprintf(`INSERT INTO $s.log VALUES (0, '$FENCE_TOKEN', %d)`, tx), a.Fence)
	sleep := fmt.Sprintf("SELECT pg_sleep(%.3f)", a.random.Float64()*0.2)
	dsn := a.Proxies[a.random.IntN(len(a.Proxies))]
	script := fmt.Sprintf(`echo "token=$FENCE_TOKEN"; exec %s -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate '%s' -c "BEGIN" -c "%s" -c "%s" -c "COMMIT"`, a.Psql, dsn, insert, sleep)
	limit, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limit, a.Binary, "run", "--lock", a.Fence, "--backend", a.Leases, "--ttl", lockTTL.String(), "--wait", "1s", "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "PGAPPNAME="+a.name)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	e.To = now()
	_, rest, found := strings.Cut(string(out), "token=")
	e.Token, rest, _ = strings.Cut(rest, "\n")
	var exit *exec.ExitError
	switch {
	case !found: // no lock
		pause(ctx, 50*time.Millisecond)
		return
	case err == nil:
		e.Outcome = Done
	case errors.As(err, &exit) && strings.Contains(rest, "ZF001"):
		e.Outcome, e.Code = Refused, "ZF001"
	default:
		e.Outcome = Unknown
	}
	a.tell(Event{From: e.From, To: e.To, Who: a.name, Fence: a.Fence, Token: e.Token, Op: Raise, Outcome: Done, Shape: "run"})
	a.tell(e)
}
