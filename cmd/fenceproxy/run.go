package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/guardian"
	"github.com/fenceproxy/fenceproxy/lockclient"
	"github.com/fenceproxy/fenceproxy/lockclient/pgfence"
)

// runFlags are the flags of run.
type runFlags struct {
	lockFlags
	once  onceFlags
	lock  string
	grace time.Duration
}

const defaultRunGrace = 3 * time.Second

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --lock NAME --backend URL [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `run takes the lock, runs the command, and gives the lock back when the command and all that it
started in its process group have ended. Whatever uses libpq in it presents the lock's token
to fenceproxy by PGOPTIONS; FENCE_LOCK and FENCE_TOKEN have it for everything else.

When the lock is lost the command is told to end (SIGTERM), --grace before anybody else can get
the lock, and killed while it still is its own, all of its process group. That is so as well
when run itself is killed or stopped. Signals are passed on to the command.

With --once-per the command runs once in each slot of time, on however many nodes it is started:
the slot is recorded in the database, a further run of it says who has run it and exits 0. A
command that works in that database can record the slot in its own transaction instead, by
SELECT fence.slot_done('NAME', 'SLOT') with the slot of FENCE_SLOT, and is exact then.

Exit codes: the command's own (128 + n when signal n ended it); 75 the lock was not acquired;
76 it was lost; 126, 127 the command cannot be run, is not there; 70 something else went wrong.`,
		Example: `  fenceproxy run --lock billing --backend postgres://lock@db/app -- psql -h proxy -f invoices.sql app
  fenceproxy run --lock nightly --backend etcd://a:2379,b:2379,c:2379 --try -- sh -c 'dump | load'
  fenceproxy run --lock nightly --backend postgres://lock@db/app --once-per @daily --retry -- ./nightly`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, errors.New("COMMAND is missing"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runUnderLock(cmd, &f, args) },
	}
	cmd.Flags().SetInterspersed(false) // flags behind the command are the command's
	cmd.Flags().StringVar(&f.lock, "lock", "", "`NAME` of the lock, and of the fence that it protects")
	f.add(cmd)
	f.once.add(cmd)
	cmd.Flags().DurationVar(&f.grace, "grace", 0, "how long the command has to end when the lock is lost (default: 3s, or a third of --ttl)")
	return cmd
}

// limits are when the command must go. Killing takes a moment, and must be over when the lock may be another's.
func (f *runFlags) limits() guardian.Limits {
	grace := f.grace
	if grace == 0 {
		grace = min(defaultRunGrace, f.ttl/3)
	}
	margin := max(grace/6, min(200*time.Millisecond, f.ttl/10))
	return guardian.Limits{Grace: max(grace, margin), Margin: margin}
}

func runUnderLock(cmd *cobra.Command, f *runFlags, argv []string) error {
	if err := f.check(cmd, f.lock); err != nil {
		return err
	}
	if f.grace < 0 || f.grace > f.ttl/2 {
		return usageError(cmd, fmt.Errorf("--grace %v is not between 0 and half of --ttl, %v", f.grace, f.ttl))
	}
	if err := f.once.check(cmd, f.backend); err != nil {
		return err
	}
	if os.Getenv("FENCE_LOCK") == f.lock && !f.try && f.wait == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "fenceproxy: this runs under lock %q already; from the same service it waits for itself, for ever\n", f.lock)
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return notRunnable(argv[0], err)
	}
	argv = append([]string{path}, argv[1:]...)
	limits := f.limits()

	guardian.KeepIgnored()
	surviveClosedOutput()
	signals := notified(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	waiting, giveUp := context.WithCancel(cmd.Context())
	defer giveUp()
	acquired := make(chan struct{})
	gaveUp := make(chan struct{})
	go func() {
		defer close(gaveUp)
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGQUIT {
					giveUp()
					return
				}
			case <-acquired:
				return
			}
		}
	}()
	renewed := make(chan struct{}, 1)
	hooks := lockclient.Hooks{Renewed: func(lockclient.Fence, time.Duration, time.Duration) {
		select {
		case renewed <- struct{}{}:
		default:
		}
	}}
	client, err := f.open(waiting, cmd, lockclient.WithGrace(limits.Grace), lockclient.WithHooks(hooks),
		lockclient.WithReleaseTimeout(max(time.Second, min(f.ttl/2, lockclient.DefaultRelease))))
	if err != nil {
		return err
	}
	defer client.Close()
	lease, err := f.acquire(waiting, client, f.lock)
	close(acquired)
	<-gaveUp
	if err != nil {
		return err
	}
	release := func() error {
		err := lease.Release(context.Background())
		if err != nil && !errors.Is(err, lockclient.ErrLost) {
			fmt.Fprintf(cmd.ErrOrStderr(), "fenceproxy: lock %q could not be released, it ends with its TTL: %v\n", f.lock, err)
		}
		return err
	}
	if waiting.Err() != nil {
		release()
		return &exit{exitNotAcquired, errors.New("interrupted")}
	}
	env, err := pgfence.Environ(os.Environ(), lease)
	if err != nil {
		if lost := lost(lease, release()); lost != nil {
			return lost
		}
		return &exit{exitInternal, err}
	}
	if f.once.slot != "" {
		run, err := f.once.begin(lease, cmd.ErrOrStderr())
		if !run {
			release()
			return err
		}
		env = append(env, "FENCE_SLOT="+f.once.slot)
	}
	terminal := ownsTerminal()
	group, err := startGroup(lease, argv, limits, env, terminal)
	if err != nil {
		f.record(cmd, lease, exitInternal)
		release()
		return &exit{exitInternal, err}
	}
	attend(group, lease, limits, client.Capabilities().SessionBound, signals, renewed)
	if terminal {
		takeTerminal()
	}
	code, failure := group.Result()
	late := group.Late()
	unrecorded := f.record(cmd, lease, result(lease, code, late, failure))
	released := release()
	if err := lost(lease, released); err != nil {
		return err
	}
	var unstarted *guardian.StartError
	switch {
	case errors.As(failure, &unstarted):
		return &exit{unstarted.Code, failure}
	case failure != nil:
		return &exit{exitInternal, fmt.Errorf("%s: %w", argv[0], failure)}
	case late: // on a machine that is starved
		return &exit{exitLost, fmt.Errorf("lock %q was renewed too late: the command was ended", f.lock)}
	case code != 0:
		return &exit{code, nil}
	case unrecorded != nil:
		return &exit{exitInternal, fmt.Errorf("the command has ended well, but slot %q is not recorded as done: %w", f.once.slot, unrecorded)}
	}
	return nil
}

// result is the exit code as the slot has it.
func result(lease *lockclient.Lease, code int, late bool, failure error) int {
	var unstarted *guardian.StartError
	switch {
	case errors.As(failure, &unstarted):
		return unstarted.Code
	case failure != nil:
		return exitInternal
	case late || lease.Err() != nil:
		return exitLost
	}
	return code
}

// record ends the slot, if there is one.
func (f *runFlags) record(cmd *cobra.Command, lease *lockclient.Lease, code int) error {
	if f.once.slot == "" {
		return nil
	}
	err := f.once.end(lease, code)
	if err != nil && code != 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "fenceproxy: slot %q: its exit code %d is not recorded: %v\n", f.once.slot, code, err)
	}
	return err
}

// startGroup starts the command and its guardian. A lock that lives on a connection must not end before the command when
// we are killed: the guardian has a copy.
func startGroup(lease *lockclient.Lease, argv []string, limits guardian.Limits, env []string, terminal bool) (*guardian.Group, error) {
	var keep *os.File
	if conn := lease.Connection(); conn != nil {
		var err error
		if keep, err = guardian.Copy(conn); err != nil {
			return nil, err
		}
		defer keep.Close()
	}
	args := func(fds []int) []string {
		return guardianArgs(argv, guardian.Deadline(lease.ValidUntil()), limits, fds, terminal)
	}
	return guardian.Start(self(), args, env, keep)
}

// attend passes on what happens to the lease and to us until the group is gone. It relies on the guardian to end the group
// in time, but not for longer than to half of the margin before the deadline: the guardian may be stopped.
func attend(group *guardian.Group, lease *lockclient.Lease, limits guardian.Limits, sessionBound bool, signals <-chan os.Signal, renewed <-chan struct{}) {
	over := lease.Done()
	for {
		lease.Check() // the clock that a suspended machine does not stop
		left := time.Until(lease.ValidUntil()) - limits.Margin/2
		if left <= 0 {
			group.Kill()
			left = guardian.Look
		}
		timer := time.NewTimer(min(left, guardian.Look))
		select {
		case <-group.Done():
			return
		case s := <-signals:
			group.Signal(s.(syscall.Signal))
		case <-renewed:
			if lease.Check() == nil {
				group.Extend(lease.ValidUntil())
			}
		case <-over:
			over = nil
			group.End()
			var lost *lockclient.LostError
			if sessionBound && errors.As(lease.Err(), &lost) && lost.Reason == lockclient.Gone {
				group.Kill() // there is no window: the next holder is at work already
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func notRunnable(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &exit{126, fmt.Errorf("%s: permission denied", name)}
	case errors.Is(err, syscall.EISDIR):
		return &exit{126, fmt.Errorf("%s: is a directory", name)}
	}
	return &exit{127, fmt.Errorf("%s: command not found", name)}
}

// self is this program, also when its file has been replaced since.
func self() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

const guardianCommand = "run-guardian"

func guardianArgs(argv []string, until time.Duration, limits guardian.Limits, fds []int, terminal bool) []string {
	args := []string{guardianCommand, "--until", strconv.FormatInt(int64(until), 10), "--grace", limits.Grace.String(), "--margin", limits.Margin.String()}
	for _, fd := range fds {
		args = append(args, "--fd", strconv.Itoa(fd))
	}
	if terminal {
		args = append(args, "--terminal")
	}
	return append(append(args, "--"), argv...)
}

// newRunGuardian is what run starts beside itself.
func newRunGuardian() *cobra.Command {
	var limits guardian.Limits
	var until int64
	var fds []int
	terminal := false
	cmd := &cobra.Command{
		Use:     guardianCommand,
		Short:   "Part of run: watch over its command",
		Long:    `run-guardian is started by fenceproxy run, and of no use by itself.`,
		Example: `  fenceproxy run-guardian --help`,
		Hidden:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(cmd, errors.New("this is started by fenceproxy run"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := guardian.Main(args, time.Duration(until), limits, fds, terminal); err != nil {
				return &exit{exitInternal, err}
			}
			return nil
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().Int64Var(&until, "until", 0, "first deadline")
	cmd.Flags().DurationVar(&limits.Grace, "grace", 0, "from being told to end to the deadline")
	cmd.Flags().DurationVar(&limits.Margin, "margin", 0, "from being killed to the deadline")
	cmd.Flags().IntSliceVar(&fds, "fd", nil, "an open file that run has handed over")
	cmd.Flags().BoolVar(&terminal, "terminal", false, "give the command the terminal")
	return cmd
}
