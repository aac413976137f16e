package run

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/fenceproxy/fenceproxy/test/pgtest"
	"github.com/fenceproxy/fenceproxy/test/proxytest"
)

// terminal makes a pseudo-terminal: what a person types and sees, and what a program has.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { person.Close() })
	var number, unlock int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skip("no pseudo-terminals here: ", errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	return person, program
}

// At a terminal the command reads what is typed, Ctrl-C is for it, and the shell that started run has the terminal back
// afterwards.
func TestTerminal(t *testing.T) {
	w := newWorld(t, pgtest.Shared(t))
	person, program := terminal(t)
	seen := &output{}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	run := proxytest.Binary(t) + " run --lock tty --backend '" + w.url() + "' -- "
	cmd := exec.Command("sh", "-c", run+`sh -c 'read x; echo "got $x"'; `+
		run+`sh -c 'trap "echo interrupted; exit 9" INT; echo up; while :; do sleep 0.02; done'; echo "code $?"; read y; echo "back $y"`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := pgtest.StartWithParent(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	program.Close()
	for _, step := range []struct{ see, typed string }{{"", "hello\n"}, {"got hello", ""}, {"up", "\x03"}, {"interrupted", ""}, {"code 9", "again\n"}, {"back again", ""}} {
		eventually(t, step.see+" on the terminal:\n"+seen.String(), func() bool { return strings.Contains(seen.String(), step.see) })
		person.WriteString(step.typed)
	}
}
